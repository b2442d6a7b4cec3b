import { expect, it } from 'vitest';
import { whileClosed } from '../../../src/features/hold/while-closed.ts';

const { choice, said } = whileClosed;

const webhook = (key: string, holdsDeliveries: boolean) => ({ key, type: 'webhook', holdsDeliveries }) as const;
type Triggers = Parameters<typeof choice>[0];

it.each<[string, Triggers, string[], string]>([
  [
    'webhooks that answer 403',
    [webhook('shop', false), { key: 'nightly', type: 'cron' }],
    ['hold', 'refuse'],
    'refuse',
  ],
  ['webhooks that hold', [webhook('shop', true), webhook('till', true)], ['hold', 'refuse'], 'hold'],
  ['both', [webhook('shop', true), webhook('till', false)], ['hold', 'refuse', 'triggers'], 'triggers'],
])('a disable of a flow with %s begins with what they say, and a drain holds', (_, triggers, values, disabling) => {
  const offered = choice(triggers, 'enable');
  expect(offered?.options.map(({ value }) => value)).toEqual(values);
  expect(offered?.value).toBe(disabling);
  expect(choice(triggers, 'resume')?.value).toBe('hold');
});

it('a flow without a webhook has nothing to choose', () => {
  expect(choice([{ key: 'nightly', type: 'cron' }], 'resume')).toBeUndefined();
});

it.each([
  ['hold', { hold: true }],
  ['refuse', { hold: false }],
  ['triggers', {}],
  [undefined, {}],
])('tells the service of the choice %s no more than it says', (chosen, body) => {
  expect(said(chosen)).toEqual(body);
});
