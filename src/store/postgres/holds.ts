import { StoreUnavailableError } from '../../errors.ts';
import { searchKeyRows } from '../../model/text.ts';
import { hold, sharingFlowRows } from '../decisions/acceptance.ts';
import { awaited, decide } from '../decisions/decision.ts';
import { runRow } from '../new-rows.ts';
import type { Acceptance, HoldResult } from '../store.ts';
import { acceptanceRows, ClaimedNames, callOf } from './acceptance.ts';
import { NewRows } from './new-rows.ts';
import type { Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const holdOperations: Operations<'holdDelivery'> = {
  holdDelivery: {
    purpose: 'write',
    changes: ({ run }, { kind }) => (kind === 'held' ? [{ kind: 'flow', flowId: run.flowId }] : []),
    run: holdDelivery,
  },
};

async function holdDelivery(sql: Sql, acceptance: Acceptance): Promise<HoldResult> {
  const call = callOf({ acceptance });
  const { run } = acceptance;
  const held = {
    run: runRow(run, call.idempotencyKey),
    keys: searchKeyRows(run.searchKeys),
    body: run.trigger.body,
  };
  const written = new NewRows(sql);
  let names: ClaimedNames | undefined;
  const claimNames = async () => {
    names = await ClaimedNames.take(sql, [call]);
    return acceptanceRows(sql, { flows: sharingFlowRows(sql.port), names, written });
  };
  const rowsOf = () => awaited(claimNames());
  const result = await decide(hold(sql.port, call, { held, bounds: sql.bounds.held, rowsOf }));
  if (result === 'full') throw new StoreUnavailableError('the limit of held deliveries is reached');
  names?.settle(sql);
  written.write();
  return result;
}
