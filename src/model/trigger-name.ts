/** Identifies one trigger of all flows. */
export interface TriggerName {
  readonly flowId: string;
  readonly triggerKey: string;
}

/** For records about a trigger: a delivery that found none has null for both. */
type MaybeTriggerName = { readonly [Part in keyof TriggerName]: string | null };

export function sameTrigger(one: MaybeTriggerName, other: MaybeTriggerName): boolean {
  return one.flowId === other.flowId && one.triggerKey === other.triggerKey;
}

/** A map key for each trigger; it is neither stored nor shown. */
export function triggerMapKey({ flowId, triggerKey }: MaybeTriggerName): string {
  return JSON.stringify([flowId, triggerKey]);
}
