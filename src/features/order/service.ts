import { counted, type Finding, iso, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { rulesFor, servicePart } from '../../dashboard/services.ts';
import { printable } from '../../model/text.ts';
import { orderAttention } from './attention.ts';
import { type OrderReport, orderStore } from './store.ts';

/** Keys that failed runs hold, and runs without a key. */
export const order = servicePart({
  name: 'order',
  attention: rulesFor(orderAttention, async (situation, { store }) => {
    const orders = await store.of(orderStore).reportOrders({ since: situation.since });
    return [...stoppedOrders(orders, situation), ...keylessRuns(orders, situation)];
  }),
});

function stoppedOrders(orders: OrderReport, { flows }: Situation): Finding<'order_stopped'>[] {
  return orders.stopped.map(({ runId, flowId, key, status, waiting }) => {
    const of = key === null ? 'of runs without a key' : `“${printable(key)}”`;
    const waits = waiting === 0 ? 'the next one will wait' : `${counted(waiting, 'run')} wait`;
    // A run that was stopped, by its time limit too, cannot be retried.
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
