import type { Json, JsonObject } from '../model/json.ts';
import type { StepDefinition } from '../model/manifest.ts';
import type { Claim, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import type { HandlerResult } from './handlers/handler.ts';

/** How another flow runs a step. */
export interface Delegated {
  /** The request to the store to start a run, or the result of the run that it started. Rejects as the store does. */
  run(step: DelegatedStep, services: DelegatedServices): Promise<HandlerResult | SubRunStart>;
  /** The effective inputs, taken from the newest revision and from the one that the step's run is pinned to. */
  inputsOf(newest: Json, pinned: Pick<StepDefinition, 'inputs'>): JsonObject;
}

export interface DelegatedStep {
  readonly step: StepDefinition;
  readonly claim: Claim;
  readonly now: number;
  /** Its inputs after the type's schema parsed them; throws `StepFailure` if they do not fit. */
  inputs(): unknown;
}

export interface DelegatedServices {
  readonly store: Pick<Store, 'findRun' | 'outlineSteps' | 'readRunInput'>;
  readonly catalog: Pick<Catalog, 'pinned'>;
}

/** A step's request to the store to start a run. */
export interface SubRunStart {
  readonly kind: 'runFlow';
  readonly flowId: string;
  readonly body: Json;
  readonly isAwaited: boolean;
}
