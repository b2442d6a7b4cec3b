import type { z } from 'zod';
import type { EnforcementMode } from '../model/manifest.ts';

/** Rows of fields, as far as a part reads them itself. */
type Schemas = Readonly<Record<string, { readonly schema: z.ZodType }>>;

/** What a feature adds to a webhook trigger. `features/trigger.ts` lists the parts. */
export interface TriggerPart<Fields extends Schemas> {
  readonly name: string;
  readonly fields: Fields;
  /** What the author of a trigger is told, by field, where the trigger has no mistakes. */
  warnings?(inputs: Given<Fields>, trigger: TriggerInForce): Partial<Readonly<Record<keyof Fields, string>>>;
}

type Given<Fields extends Schemas> = {
  readonly [Name in keyof Fields]?: z.output<Fields[Name]['schema']> | undefined;
};

/** What decides besides a trigger's own fields. */
export interface TriggerInForce {
  /** Its own mode, or that of the service. */
  readonly mode: EnforcementMode;
}

export function triggerPart<const Fields extends Schemas>(part: TriggerPart<Fields>): TriggerPart<Fields> {
  return part;
}
