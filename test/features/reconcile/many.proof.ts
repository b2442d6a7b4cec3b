import { expect, it } from 'vitest';
import { eventually } from '../../e2e/service.ts';
import { serveApi } from './fakes/fake-api.ts';
import { fakeStripe, type StripeEvent } from './fakes/stripe.ts';
import { FLOW_ID, reconcilingFolder, startReconciling } from './reconciling.ts';

it('fetches more than one look does, the oldest first, once each', async () => {
  const events: StripeEvent[] = [];
  const log = await serveApi(fakeStripe('rk_test', () => events));
  const reconcile = { from: 'stripe', token: 'rk_test', every: 'PT1S', lookback: 'P1D', baseUrl: log.url };
  const inputs = { webhookSlug: 'stripe', webhookEventId: 'body.id' };
  const hook = { type: 'webhook', inputs, reconcile, searchKeys: { event: 'body.id' } };
  const place = await reconcilingFolder({ id: FLOW_ID, version: '1', triggers: { hook }, steps: {} });
  const service = await startReconciling(place.folder);
  try {
    await eventually(
      async () => log.received,
      ({ length }) => length > 0,
    );
    // The service goes by the clock of the machine, so that its timers and its time agree.
    const now = Math.ceil(Date.now() / 1000);
    for (let index = 0; index < 1250; index += 1) {
      events.push({ id: `evt_${index}`, type: 'invoice.paid', created: now + Math.floor(index / 200) });
    }
    const books = () => service.get<{ accepted: number; runs: number }>('/flows/api/books');
    await eventually(books, ({ runs }) => runs >= events.length, {
      seconds: 400,
      because: '1250 are fetched and accepted one after the other',
    });
    const seen = log.received.length;
    await eventually(
      async () => log.received.length,
      (requests) => requests > seen + 30,
      { seconds: 60, because: 'it is two whole looks of thirteen pages, one a second' },
    );
    expect(await books()).toMatchObject({ accepted: 1250, runs: 1250 });
    const newest = await service.get<{ searchKeys: { event: string } }[]>('/flows/api/runs?take=500');
    const found = newest.map(({ searchKeys }) => Number(searchKeys.event.slice(4)));
    const at = (index: number) => Math.floor(index / 200);
    expect(found.every((index, place) => place === 0 || at(index) <= at(found[place - 1] ?? 0))).toBe(true);
  } finally {
    await service.close();
    await place.remove();
  }
});
