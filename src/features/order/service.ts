import { field, outcomeSchema, unknownId } from '../../dashboard/answer.ts';
import { counted, type Finding, iso, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { ID_PARAMS } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, rulesFor, servicePart } from '../../dashboard/services.ts';
import { HttpError } from '../../errors.ts';
import { printable } from '../../model/text.ts';
import { orderAttention } from './attention.ts';
import { type OrderReport, orderStore } from './store.ts';

const releaseRoute: ApiRoutes = (app, { store, control, clock }) => {
  app.post(
    '/flows/api/runs/:id/release-order',
    route('runs', {
      operationId: 'releaseOrder',
      limit: 'run',
      summary:
        'Lets the next run of its key start, although this one has failed and holds the key (serializeOnFailure: stop)',
      params: ID_PARAMS,
      answer: outcomeSchema.extend({
        runId: field.id().nullable().describe('The run that starts; null if none waits.'),
      }),
      refusals: [404, 409],
    }),
    async ({ params: { id } }) => {
      const result = await store.of(orderStore).releaseOrder({ runId: id, at: clock.now() });
      if (result.kind === 'unknown') throw unknownId('run', id);
      if (result.kind === 'notHolding') {
        throw new HttpError('not_holding', 'The run holds no key: no other run waits because it failed');
      }
      const { next } = result;
      if (next === undefined) return { success: true, message: 'The key is free', runId: null };
      control.wentOn(next.timeoutAt);
      return { success: true, message: 'The next run of the key starts', runId: next.runId };
    },
  );
};

/** Keys held by failed runs, and runs without a key. */
export const order = servicePart({
  name: 'order',
  routes: [releaseRoute],
  attention: rulesFor(orderAttention, async (situation, { store }) => {
    const orders = await store.of(orderStore).reportOrders({ since: situation.since });
    return [...stoppedOrders(orders, situation), ...keylessRuns(orders, situation)];
  }),
});

function stoppedOrders(orders: OrderReport, { flows }: Situation): Finding<'order_stopped'>[] {
  return orders.stopped.map(({ runId, flowId, key, status, waiting }) => {
    const of = key === null ? 'of runs without a key' : `“${printable(key)}”`;
    const waits =
      waiting === 0 ? 'the next one will wait' : `${counted(waiting, 'run')} ${waiting === 1 ? 'waits' : 'wait'}`;
    // A stopped run, including one that reached its time limit, cannot be retried.
    const advice =
      status === 'Failed'
        ? 'Retry the run, or release its order'
        : `The run is ${status} and cannot be retried: release its order`;
    const message = `A failed run of ${nameOf(flowId, flows)} holds the key ${of}, so no other run of it starts: ${waits}. ${advice}`;
    return { kind: 'order_stopped', message, link: `/flows/runs/${runId}`, flowId, about: runId };
  });
}

function keylessRuns(orders: OrderReport, { flows, since }: Situation): Finding<'order_keyless'>[] {
  return orders.keyless.map(({ flowId, count, runId, problem }) => {
    const message =
      `${counted(count, 'run')} of ${nameOf(flowId, flows)} got no key from \`serialize\` ` +
      `(since ${iso(since)}), and all of them run one at a time. The newest: ${printable(problem)}`;
    return { kind: 'order_keyless', message, link: `/flows/runs/${runId}`, flowId, about: 'keyless' };
  });
}
