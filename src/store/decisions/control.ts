import { advance } from './follow.ts';
import { retryStep } from './retry.ts';
import { runRowsOf } from './run-rows.ts';
import { deliverSignal } from './signal.ts';
import { cancelRun } from './stop.ts';
import type { Verbs } from './verb.ts';

export const controlVerbs: Verbs<'advance' | 'cancelRun' | 'retryStep' | 'deliverSignal'> = {
  advance: {
    access: 'write',
    changes: null,
    decide: (port, outcome, lease) => advance(runRowsOf(port), outcome, lease),
  },
  cancelRun: { access: 'write', changes: null, decide: (port, cancel) => cancelRun(runRowsOf(port), cancel) },
  retryStep: { access: 'write', changes: null, decide: (port, retry) => retryStep(runRowsOf(port), retry) },
  deliverSignal: { access: 'write', changes: null, decide: (port, signal) => deliverSignal(runRowsOf(port), signal) },
};
