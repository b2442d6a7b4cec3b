import type { Database } from 'better-sqlite3';
import { decideNow } from '../decisions/decision.ts';
import { advance } from '../decisions/follow.ts';
import { retryStep } from '../decisions/retry.ts';
import { deliverSignal } from '../decisions/signal.ts';
import { cancelRun } from '../decisions/stop.ts';
import type { Member } from './messages.ts';
import { runRowsOf } from './run-rows.ts';

export const controlOperations = {
  advance: { thread: 'writer', prepare: prepareAdvance },
  cancelRun: { thread: 'writer', prepare: prepareCancelRun },
  retryStep: { thread: 'writer', prepare: prepareRetryStep },
  deliverSignal: { thread: 'writer', prepare: prepareDeliverSignal },
} as const;

function prepareAdvance(db: Database): Member<'advance'> {
  const rows = runRowsOf(db);
  return (outcome, lease) => decideNow(advance(rows, outcome, lease));
}

function prepareCancelRun(db: Database): Member<'cancelRun'> {
  const rows = runRowsOf(db);
  return (cancel) => decideNow(cancelRun(rows, cancel));
}

function prepareRetryStep(db: Database): Member<'retryStep'> {
  const rows = runRowsOf(db);
  return (retry) => decideNow(retryStep(rows, retry));
}

function prepareDeliverSignal(db: Database): Member<'deliverSignal'> {
  const rows = runRowsOf(db);
  return (signal) => decideNow(deliverSignal(rows, signal));
}
