import pino from 'pino';
import { expect, it } from 'vitest';
import { createKeyKeeper } from '../../../src/features/keys/key-keeper.ts';
import type { TriggerTable } from '../../../src/webhooks/triggers.ts';
import { onlyVerbs } from '../../store/with-verbs.ts';
import { FakeClock } from '../../webhooks/samples.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** As far as the keeper reads it. */
const trigger = (current: string, previous: string) =>
  ({
    trigger: { flowId: 'flow', triggerKey: 'shop', keys: {} },
    namedKey: (role: string) => ({ name: role === 'current' ? current : previous }),
  }) as unknown as ReturnType<TriggerTable['list']>[number];

it('notes keys when they change and every hour, and then tidies up a few rows at a time', async () => {
  const clock = new FakeClock();
  const asked: string[] = [];
  let left = 250;
  const store = {
    noteKeys: async ({ keys }: { keys: readonly { role: string; keyName: string }[] }) =>
      void asked.push(['note', ...keys.map(({ role, keyName }) => `${role} ${keyName}`)].join(' ')),
    tidyKeys: async ({ before, limit }: { before: number; limit: number }) => {
      asked.push(`tidy ${(clock.now() - before) / DAY}`);
      const taken = Math.min(left, limit);
      left -= taken;
      return taken;
    },
  };
  let triggers = [trigger('a', 'b')];
  const logger = pino({ level: 'silent' });
  const keeper = createKeyKeeper({
    store: onlyVerbs(store),
    triggers: () => ({ list: () => triggers }),
    clock,
    logger,
  });
  const sweep = async (begin = keeper.sweep) => {
    begin();
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    return asked.splice(0);
  };
  expect(await sweep()).toEqual(['note current a previous b', 'tidy 30', 'tidy 30', 'tidy 30']);
  expect(await sweep()).toEqual([]);
  clock.advance(HOUR - 1);
  triggers = [trigger('a', 'a')];
  expect(await sweep(keeper.note)).toEqual(['note current a']);
  expect(await sweep(keeper.note)).toEqual([]);
  triggers = [trigger('a', 'c')];
  expect(await sweep()).toEqual(['note current a previous c']);
  clock.advance(1);
  expect(await sweep()).toEqual(['note current a previous c', 'tidy 30']);
  await keeper.stop();
});

it('notes keys that change while others are being noted', async () => {
  const noted: string[] = [];
  let finish = () => {};
  const store = {
    noteKeys: async ({ keys }: { keys: readonly { keyName: string }[] }) => {
      noted.push(keys.map(({ keyName }) => keyName).join(' '));
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
    },
    tidyKeys: async () => 0,
  };
  let triggers = [trigger('a', 'b')];
  const logger = pino({ level: 'silent' });
  const keeper = createKeyKeeper({
    store: onlyVerbs(store),
    triggers: () => ({ list: () => triggers }),
    clock: new FakeClock(),
    logger,
  });
  keeper.note();
  triggers = [trigger('c', 'a')];
  keeper.note();
  finish();
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
  finish();
  await keeper.stop();
  expect(noted).toEqual(['a b', 'c a']);
});
