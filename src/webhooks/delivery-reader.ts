import type { CompiledExpression } from '../expressions/compile.ts';
import type { ArrivingBody } from '../expressions/trigger-body.ts';
import type { Problem } from '../manifest/issues.ts';
import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Delivery, GateResult } from '../model/delivery.ts';
import type { ResolvedScheme } from './schemes/resolve.ts';
import type { FoundValue } from './schemes/spec.ts';

/** Reads values of deliveries by which people find them. `features/reader.ts` lists the readers. */
export interface DeliveryReader {
  readonly name: string;
  /** Problems of a trigger that depend on its scheme. */
  problems(trigger: WebhookTrigger, scheme: ResolvedScheme | undefined): readonly Problem[];
  /** Undefined if the trigger's deliveries have no such values, so that it costs nothing. */
  prepare(trigger: WebhookTrigger, scheme: ResolvedScheme | undefined): PreparedKeys | undefined;
}

/** The search keys of a trigger's deliveries, ready to be read. */
export interface PreparedKeys {
  /** Keys that are plain headers, with the names of these headers. */
  readonly headers: readonly (readonly [name: string, headers: readonly string[]])[];
  /** Where the type of an event is taken from; undefined if deliveries have none. */
  readonly event: CompiledExpression | FoundValue | undefined;
  /**
   * Adds the other keys to the values, and never throws. Says which keys have no value, and why; undefined if all keys
   * of the manifest have one. Absent if there are no other keys.
   */
  readonly readOthers?: (
    headers: Delivery['headers'],
    body: ArrivingBody,
    values: Record<string, string>,
  ) => GateResult | undefined;
}
