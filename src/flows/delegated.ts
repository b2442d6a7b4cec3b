import type { Json, JsonObject } from '../model/json.ts';
import type { StepDefinition } from '../model/manifest.ts';
import type { Claim, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import type { HandlerResult } from './handlers/handler.ts';

/** How the store runs a step by other steps: those of another flow, or its own steps for each item. */
export interface Delegated {
  /** The request to the store to start a run or a loop, or the result of the run that it started. Rejects as the store does. */
  run(step: DelegatedStep, services: DelegatedServices): Promise<HandlerResult | SubRunStart> | LoopStart;
  /** The effective inputs, taken from the newest revision and from the one that the step's run is pinned to. */
  inputsOf?(newest: Json, pinned: Pick<StepDefinition, 'inputs'>): JsonObject;
}

export interface DelegatedStep {
  readonly step: StepDefinition;
  readonly claim: Claim;
  readonly now: number;
  /** Its resolved inputs; those of a loop are under `forEach`. */
  readonly resolved: Json;
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

/** The loop that a step asks the store to start. */
export interface LoopStart {
  readonly kind: 'loop';
  readonly items: readonly Json[];
  /** Iterations that run at once. */
  readonly concurrency: number;
  /** The recorded input: the items are stored once, with the loop. */
  readonly input: Json;
}
