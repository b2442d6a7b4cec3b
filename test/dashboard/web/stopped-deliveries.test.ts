import { expect, it } from 'vitest';
import { words } from '../../../src/dashboard/web/words.ts';

const webhook = (key: string, holdsDeliveries: boolean) =>
  ({ key, type: 'webhook', enabled: true, holdsDeliveries }) as const;
type Triggers = Parameters<typeof words.stoppedDeliveries>[0];

it.each<[string, Triggers, string[], string]>([
  [
    'webhooks that answer 403',
    [webhook('shop', false), { key: 'nightly', type: 'cron', enabled: true }],
    ['hold', 'refuse'],
    'refuse',
  ],
  ['webhooks that hold', [webhook('shop', true), webhook('till', true)], ['hold', 'refuse'], 'hold'],
  ['both', [webhook('shop', true), webhook('till', false)], ['hold', 'refuse', 'triggers'], 'triggers'],
])('a disable of a flow with %s begins with what they say, and a drain holds', (_, triggers, values, disabling) => {
  const offered = words.stoppedDeliveries(triggers, 'enable');
  expect(offered?.options.map(({ value }) => value)).toEqual(values);
  expect(offered?.value).toBe(disabling);
  expect(words.stoppedDeliveries(triggers, 'resume')?.value).toBe('hold');
});

it('a flow without a webhook has nothing to choose', () => {
  expect(words.stoppedDeliveries([{ key: 'nightly', type: 'cron', enabled: true }], 'resume')).toBeUndefined();
});
