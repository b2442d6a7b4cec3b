import fc from 'fast-check';
import { expect, test } from 'vitest';
import { searchKeyRows } from '../../src/model/text.ts';
import { RUN_COLUMNS } from '../../src/store/new-rows.ts';
import { DELIVERY, sentDelivery } from '../../src/store/sqlite/deliveries.ts';
import {
  ownStepColumns,
  RUN,
  receivedAcceptance,
  sentAcceptance,
  sentNonce,
} from '../../src/store/sqlite/sent-acceptance.ts';
import { aDelivery, aNonce, aRun, id, T0 } from './samples.ts';

const keys = fc.option(fc.dictionary(fc.constantFrom('event', 'id', 'order'), fc.constantFrom('push', 'SO-1')), {
  nil: undefined,
});
const headers = fc.constantFrom({ 'content-type': 'text/plain' }, { accept: '*/*', host: 'hooks' });
const shares = [{ flowId: id(9), triggerKey: 'github', runId: null, outcome: null }];

test('the writer reads from its list what the caller put there, whatever an acceptance has and has not', () => {
  fc.assert(
    fc.property(
      fc.record({
        runKeys: keys,
        ownKeys: keys,
        runHeaders: headers,
        ownHeaders: headers,
        steps: fc.integer({ min: 0, max: 3 }),
        hasDelivery: fc.boolean(),
        hasNonce: fc.boolean(),
        isShared: fc.boolean(),
        isFiltered: fc.constantFrom(undefined, true as const),
        verifiedBy: fc.constantFrom(undefined, 'key 1'),
        order: fc.constantFrom(undefined, { key: 'k', problem: null, isVerified: true }),
        pins: fc.constantFrom(undefined, { [id(8)]: 2 }),
      }),
      ({ runKeys, ownKeys, runHeaders, ownHeaders, steps, hasDelivery, hasNonce, isShared, ...given }) => {
        const { order, pins, isFiltered, verifiedBy } = given;
        const { trigger, ...rest } = aRun({ deliveryId: id(1), searchKeys: runKeys, order, pins });
        const entry = Array.from({ length: steps }, (_, at) => ({ stepKey: `s${at}`, stepType: 'NoOp', dueAt: T0 }));
        const run = { ...rest, steps: entry, trigger: { ...trigger, headers: runHeaders } };
        const record = aDelivery({ runId: run.id, headers: ownHeaders, searchKeys: ownKeys });
        const delivery = hasDelivery ? { ...record, ...(isShared && { shares }) } : undefined;
        const nonce = hasNonce ? aNonce({ header: 'x-id' }) : undefined;

        const sent = structuredClone(sentAcceptance({ run, delivery, nonce, verifiedBy, isFiltered }));
        const received = receivedAcceptance(sent);

        const [row, stepRows, runKeyRows, subFlows, ownPins, ownOrder, deliveriesOf] = received.run;
        expect(row).toHaveLength(RUN_COLUMNS.length);
        expect([row[RUN.id], row[RUN.trigger_headers]]).toEqual([run.id, JSON.stringify(runHeaders)]);
        expect(stepRows.map((step) => step[ownStepColumns.indexOf('step_key')])).toEqual(
          entry.map((one) => one.stepKey),
        );
        expect(runKeyRows).toEqual(searchKeyRows(runKeys));
        expect([subFlows, ownPins, ownOrder, deliveriesOf]).toEqual([undefined, pins, order, undefined]);
        expect(received.nonce).toEqual(nonce && sentNonce(run, nonce));
        expect(received).toMatchObject({ verifiedBy: verifiedBy ?? null, isFiltered: isFiltered === true });
        const [values, ...others] = sentDelivery(record);
        const kept = ownHeaders === runHeaders ? values.with(DELIVERY.headers, null) : values;
        expect(received.delivery).toEqual(hasDelivery ? [kept, ...others, isShared ? shares : undefined] : undefined);
      },
    ),
  );
});
