import type { Json, JsonObject } from '../model/json.ts';
import type { StepDefinition } from '../model/manifest.ts';
import type { Claim, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import type { HandlerResult } from './handlers/handler.ts';

/** How a step is run by another flow. */
export interface Delegated {
  /** What the step asks the store to start, or what the end of the run that it started means. Rejects as the store does. */
  run(step: DelegatedStep, services: DelegatedServices): Promise<HandlerResult | SubRunStart>;
  /** The inputs that count, of those of the newest revision and of the one that the step's run is pinned to. */
  inputsOf(newest: Json, pinned: Pick<StepDefinition, 'inputs'>): JsonObject;
}

export interface DelegatedStep {
  readonly step: StepDefinition;
  readonly claim: Claim;
  readonly now: number;
  /** Its inputs as the schema of the type made them; throws `StepFailure` where they do not fit. */
  inputs(): unknown;
}

export interface DelegatedServices {
  readonly store: Pick<Store, 'findRun' | 'outlineSteps' | 'readRunInput'>;
  readonly catalog: Pick<Catalog, 'pinned'>;
}

/** The run that a step asks the store to start. */
export interface SubRunStart {
  readonly kind: 'runFlow';
  readonly flowId: string;
  readonly body: Json;
  readonly isAwaited: boolean;
}
