import { setImmediate } from 'node:timers/promises';
import { z } from 'zod';
import { actorOf } from '../../dashboard/actors.ts';
import { field, outcomeSchema } from '../../dashboard/answer.ts';
import { type Finding, iso, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { ID_PARAMS, MAX_REASON, parseJsonBody } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, rulesFor, servicePart } from '../../dashboard/services.ts';
import { DAY_MS } from '../../model/clock.ts';
import { DETAILS } from '../../model/delivery.ts';
import { findFlow } from '../flows/flow-control.ts';
import { holdAttention } from './attention.ts';
import { createHolding, RUNS_A_CHUNK } from './holding.ts';
import { holdStore } from './store.ts';

const discardBody = z.strictObject({
  reason: z.string().trim().min(1).max(MAX_REASON).describe('Why; kept in the activity and with the deliveries.'),
  before: z.iso
    .datetime({ offset: true })
    .optional()
    .describe('Only deliveries that were held before this time; all if absent.'),
});

/** The only way to discard accepted deliveries whose runs have not started. */
const discardRoute: ApiRoutes = (app, services) => {
  app.post(
    '/flows/api/flows/:id/held/discard',
    route('flows', {
      operationId: 'discardHeld',
      limit: 'flow',
      access: {
        detailsOf: async (request) => {
          const { before } = parseJsonBody(request, discardBody);
          return { ...(before !== undefined && { before }) };
        },
      },
      summary: 'Discards held deliveries of a flow: their runs never start',
      description:
        'They were accepted, so their publishers do not send them again; their ids stay known. Nothing else removes held deliveries.',
      params: ID_PARAMS,
      command: [discardBody, { reason: 'the shop was migrated by hand' }],
      answer: outcomeSchema.extend({
        discarded: field.integer(),
        left: field.integer().describe('Deliveries that are still held.'),
      }),
      refusals: [404],
    }),
    async (request) => {
      const { id: flowId } = findFlow(request.params.id, services).record;
      const { reason, before } = parseJsonBody(request, discardBody);
      const heldBefore = before === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(before);
      const note = `${DETAILS.discarded}${actorOf(request).name}: ${reason}`;
      const { discarded, left } = await discard({ flowId, heldBefore, note }, services);
      const message = `${discarded} held ${discarded === 1 ? 'delivery is' : 'deliveries are'} discarded`;
      return { success: true, message, discarded, left };
    },
  );
};

/** Discards deliveries that were held before an instant, so no run starts for them; `note` gives the reason. */
async function discard(
  which: { readonly flowId: string; readonly heldBefore: number; readonly note: string },
  { store, holding }: Pick<DashboardServices, 'store' | 'holding'>,
): Promise<{ readonly discarded: number; readonly left: number }> {
  try {
    for (let discarded = 0; ; ) {
      const chunk = await store.of(holdStore).discardHeld({ ...which, limit: RUNS_A_CHUNK });
      discarded += chunk.discarded;
      if (chunk.discarded < RUNS_A_CHUNK) return { discarded, left: chunk.left };
      // Other work for the writer goes first.
      await setImmediate();
    }
  } finally {
    // If the store is unavailable: once it is back, it reports all flows, and they are counted again.
    await holding.refresh(which.flowId).catch(() => {});
  }
}

/** Longer than a drain, or an outage of a service that a flow calls. */
const LONG_HELD_MS = 7 * DAY_MS;

/** Reports all held deliveries: only people start or discard them. */
async function heldDeliveries(
  { flows, now }: Situation,
  { store }: Pick<DashboardServices, 'store'>,
): Promise<Finding<'deliveries_held' | 'deliveries_held_long'>[]> {
  const all = await store.of(holdStore).listHeld();
  return all.map(({ flowId, held, oldestAt }) => {
    const count = held === 1 ? '1 accepted delivery' : `${held} accepted deliveries`;
    const message =
      `${count} of ${nameOf(flowId, flows)} ${held === 1 ? 'waits' : 'wait'} for the flow to be enabled or resumed, the oldest since ${iso(oldestAt)}; ` +
      'start their runs, or discard them with a reason';
    const link = `/flows/deliveries?flowId=${flowId}&outcome=held`;
    return { kind: oldestAt < now - LONG_HELD_MS ? 'deliveries_held_long' : 'deliveries_held', message, link };
  });
}

export const hold = servicePart({
  name: 'hold',
  routes: [discardRoute],
  attention: rulesFor(holdAttention, heldDeliveries),
  start: ({ engine, settings: { holdDeliveries }, ...host }) => {
    const holding = createHolding({
      ...host,
      rows: host.store.of(holdStore),
      engine: { announce: (run) => engine().announce(run) },
      holdDeliveries,
    });
    return { holding };
  },
});
