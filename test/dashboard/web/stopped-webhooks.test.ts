import { expect, it } from 'vitest';
import { words } from '../../../src/dashboard/web/words.ts';

const webhook = (key: string, holdsDeliveries: boolean) => ({ key, type: 'webhook', holdsDeliveries }) as const;

it.each<[string, Parameters<typeof words.stoppedWebhooks>[0], string[]]>([
  ['no webhook', [{ key: 'nightly', type: 'cron' }], []],
  ['webhooks that answer 403', [webhook('shop', false)], ['Deliveries to “shop” are refused with 403.']],
  [
    'webhooks that hold',
    [webhook('shop', true), webhook('till', true), webhook('web', true)],
    ['Deliveries to “shop”, “till” and “web” are accepted and held. Their runs start once you resume the flow.'],
  ],
  [
    'both',
    [webhook('$&', true), webhook('till', false)],
    [
      'Deliveries to “$&” are accepted and held. Their runs start once you resume the flow.',
      'Deliveries to “till” are refused with 403.',
    ],
  ],
])('says what becomes of deliveries to a stopped flow with %s', (_, triggers, expected) => {
  expect(words.stoppedWebhooks(triggers, 'resume')).toEqual(expected);
});
