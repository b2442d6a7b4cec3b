import { describe, expect } from 'vitest';
import { activityStore } from '../../../src/features/activity/store.ts';
import { runsStore } from '../../../src/features/runs/store.ts';
import { isStorable } from '../../../src/model/text.ts';
import type { Claim, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  claimAll,
  deliveryIds,
  finish,
  graphOf,
  id,
  readInput,
  startRun,
  succeeded,
  T0,
} from '../samples.ts';

const HOSTILE: Readonly<Record<string, string>> = {
  quotes: `it's "quoted" \`so\`; DROP TABLE runs; --`,
  'wildcards and escapes': '100%_\\%\\_\\\\n$1:a?{{b}}',
  'line ends and a tab': 'a\r\nb\tc\u2028d',
  'emoji and marks': '👩‍👩‍👧 e\u0301 \u202eabc\u202c \uffff',
  'a NUL': 'a\0b',
  'half of a surrogate pair': 'a\ud83db',
  'escapes of JSON': '\\u0000 \\ud800 "\\',
  '64 KiB': `${'x€'.repeat(32_767)}xy`,
};
const each = Object.entries(HOSTILE);

/** Characters that no text column accepts may come back as U+FFFD. */
const readable = (text: string | null | undefined) => text && Buffer.from(text.replaceAll('\0', '\ufffd')).toString();

export function hostileStrings({ test }: StoreUnderTest): void {
  describe('text from outside', () => {
    test.each(each)('of %s is one nonce', async (store, _name, value) => {
      expect((await store.accept(acceptanceOf(1, { nonce: aNonce({ value }) }))).kind).toBe('accepted');
      expect((await store.accept(acceptanceOf(2, { nonce: aNonce({ value: `${value}.` }) }))).kind).toBe('accepted');
      expect((await store.accept(acceptanceOf(3, { nonce: aNonce({ value }) }))).kind).toBe('replayed');
    });

    test.each(each)('of %s is one idempotency key', async (store, _name, idempotencyKey) => {
      expect((await store.accept(acceptanceOf(1, { idempotencyKey }))).kind).toBe('accepted');
      const other = `${idempotencyKey.slice(0, -1)}.`;
      expect((await store.accept(acceptanceOf(2, { idempotencyKey: other }))).kind).toBe('accepted');
      expect(await store.accept(acceptanceOf(3, { idempotencyKey }))).toMatchObject({
        kind: 'duplicate',
        runId: id(1001),
      });
    });

    test('is not cut at a NUL: what follows it counts', async (store) => {
      const values = ['a', 'a\0', 'a\0b', 'a\0c', '\0', '\0\0'];
      for (const [n, value] of values.entries()) {
        const acceptance = acceptanceOf(n, { nonce: aNonce({ value }), idempotencyKey: value });
        expect((await store.accept(acceptance)).kind).toBe('accepted');
      }
      for (const [n, value] of values.entries()) {
        const again = acceptanceOf(50 + n, { nonce: aNonce({ value: `${value} ${n}` }), idempotencyKey: value });
        expect(await store.accept(again)).toMatchObject({ kind: 'duplicate', runId: id(1000 + n) });
      }
    });

    test.each(each)('of %s is one signal’s name, and its body', async (store, _name, text) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const signal = { runId, name: text, body: { [text]: text }, at: T0 };
      expect(await store.deliverSignal(signal)).toMatchObject({ kind: 'accepted' });
      expect(await store.deliverSignal(signal)).toMatchObject({ kind: 'duplicate' });
      expect((await store.of(runsStore).listSignals(runId)).map(({ name }) => readable(name))).toEqual([
        readable(text),
      ]);
      const [claim] = await claimAll(store);
      const waiting = { kind: 'waiting', state: { text }, dueAt: null, signalName: text } as const;
      await finish(store, claim as Claim, waiting);
      const [resumed] = await claimAll(store);
      expect(resumed?.resumed).toEqual({ state: { text }, signal: { body: { [text]: text }, deliveredAt: T0 } });
    });

    test.each(each)('of %s passes through steps unchanged', async (store, _name, text) => {
      const runId = await startRun(store, graphOf({ a: [], b: [] }));
      const [a, b] = await claimAll(store);
      await finish(store, a as Claim, succeeded({ [text]: [text] }));
      const error = { code: 'broken', message: text, retryable: false };
      await finish(store, b as Claim, { kind: 'failed', error, output: text });
      const steps = Object.values((await readInput(store, runId)).steps);
      expect(steps).toContainEqual({ status: 'Succeeded', output: { [text]: [text] }, error: null });
      expect(steps).toContainEqual({ status: 'Failed', output: text, error });
    });

    test.each(each)('of %s is kept as what people and gates said', async (store, _name, text) => {
      const runId = await startRun(store, graphOf({ a: [], b: [] }));
      const [claim] = await claimAll(store);
      await finish(store, claim as Claim, { kind: 'skipped', reason: text });
      const skipped = (await store.listSteps(runId))?.find(({ status }) => status === 'Skipped');
      expect(readable(skipped?.skipReason)).toBe(readable(text));
      await store.cancelRun({ runId, reason: text, at: T0 });
      expect(readable((await store.findRun(runId))?.cancelReason)).toBe(readable(text));
      await store.recordDelivery(aDelivery({ detail: text, headers: { 'x-sent': text } }));
      const record = await store.findDelivery(id(1));
      expect(readable(record?.detail)).toBe(readable(text));
      expect(readable(record?.headers['x-sent'])).toBe(readable(text));
      const intervention = { id: id(7), at: T0, actor: text, clientIp: null, action: 'cancelRun', target: null };
      await store.of(activityStore).beginIntervention({ ...intervention, details: { [text]: text }, reason: text });
      const [kept] = (await store.of(activityStore).listInterventions({ skip: 0, take: 9 })).items;
      expect([kept?.actor, kept?.reason].map(readable)).toEqual([text, text].map(readable));
    });

    test('is searched for literally', async (store) => {
      const texts = Object.values(HOSTILE).filter((text) => isStorable(text) && text.length <= 200);
      const plain = 'neither 100 nor aXb';
      for (const [n, detail] of [...texts, plain].entries())
        await store.recordDelivery(aDelivery({ id: id(n), detail }));
      for (const [n, text] of texts.entries()) expect(await found(store, text)).toEqual([id(n)]);
      expect(await found(store, 'a_b')).toEqual([]);
      expect(await found(store, '100%n')).toEqual([]);
      expect(await found(store, '\\\\\\')).toEqual([]);
      expect(await deliveryIds(store)).toHaveLength(texts.length + 1);
    });
  });
}

async function found(store: Store, search: string): Promise<string[]> {
  const { items } = await store.listDeliveries({ skip: 0, take: 9, search });
  return items.map((delivery) => delivery.id);
}
