import type { z } from 'zod';
import type { ArrivingBody } from '../expressions/trigger-body.ts';
import type { GivenAnswer } from '../model/answer.ts';
import type { CoalesceClaim, SignalClaim } from '../model/delivery.ts';
import type { Json } from '../model/json.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { RunTrigger } from '../model/run.ts';

/** Rows of fields, as far as a part reads them itself. */
type Schemas = Readonly<Record<string, { readonly schema: z.ZodType }>>;

/** What a feature adds to a webhook trigger. `features/trigger.ts` lists the parts. */
export interface TriggerPart<Fields extends Schemas, Objects extends TriggerObjects = TriggerObjects> {
  readonly name: string;
  /** Among its inputs. */
  readonly fields: Fields;
  /** Beside its inputs, by name. */
  readonly objects?: Objects;
  /** What the author of a trigger is told, by field, where the trigger has no mistakes. */
  warnings?(inputs: Given<Fields>, trigger: TriggerInForce): Partial<Readonly<Record<keyof Fields, string>>>;
  /** Requests that its fields describe, which are answered instead of being taken as deliveries. */
  handshakes?(inputs: Given<Fields>): readonly OwnHandshake[];
  /** Which deliveries start a run; absent where all do. */
  filter?(inputs: Given<Fields>): DeliveryFilter | undefined;
}

/** CEL condition over body and headers, and the field that has it: a delivery for which it is false starts no run. */
export interface DeliveryFilter {
  readonly field: string;
  readonly condition: string;
}

/** A `Handshake` of `webhooks/schemes`, by as much of a request as the fields of a trigger may read. */
export interface OwnHandshake {
  readonly name: string;
  readonly method: 'GET' | 'HEAD' | 'OPTIONS' | 'POST';
  readonly needsVerification: false;
  recognises(request: AskedHandshake): boolean;
  refuse(request: AskedHandshake): (Refusal & { readonly reason: 'signature_malformed' }) | undefined;
  answer(request: AskedHandshake): GivenAnswer | undefined;
}

type Refusal = { readonly [Part in 'message' | 'detail']: string } & { readonly statusCode: number };

export interface AskedHandshake {
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: Uint8Array;
}

type Given<Fields extends Schemas> = {
  readonly [Name in keyof Fields]?: z.output<Fields[Name]['schema']> | undefined;
};

export type TriggerObjects = Readonly<Record<string, TriggerObject>>;

/** An object that only webhook triggers have, such as `"reconcile": { … }`. */
export interface TriggerObject<Schema extends z.ZodType = z.ZodType, Written = z.output<Schema>> {
  readonly schema: Schema;
  /** Names of all fields that any form of it has. */
  readonly keys: readonly string[];
  /** It fetches deliveries that did not arrive: their originals may come later. */
  readonly fetches: boolean;
  /** Paths of the values that are secrets, as of a step's inputs: `*` stands for any key. */
  secrets(written: Written): readonly string[];
  /** CEL over body and headers that tells events apart, where neither the trigger nor its scheme does. */
  eventId?(written: Written): string | undefined;
  /** What its deliveries answer in place of starting runs; absent where they start runs. */
  signals?(written: Written): Signalling;
  /** How its deliveries share runs; absent where each has one of its own. */
  coalesces?(written: Written): Coalescing;
  /** What is wrong with it, whatever the scheme and the keys of its trigger. */
  mistakes?(written: Written, inputs: Readonly<Record<string, unknown>>): readonly Omit<ObjectProblem, 'kind'>[];
  /** Of a trigger without mistakes in its inputs. */
  problems(written: Written, trigger: TriggerFacts): readonly ObjectProblem[];
  /** Names what is accepted although nothing verifies it, its secrets left out; undefined where nothing is. */
  unverified(written: Written, gates: { readonly verifies: boolean; readonly asksAddress: boolean }): Json | undefined;
  /** What another one does; a trigger without it has undefined. */
  changed(before: Written | undefined, after: Written | undefined): ObjectChange;
}

export interface Signalling {
  /** A `WaitForSignal` step of the flow; a step of a loop behind the keys of its loops, as in `orders.approval`. */
  readonly step: string;
  /** CEL over body and headers: the runs answered are those whose step has the same `key`. */
  readonly key: string;
  /** What its delivery says; `run` is the one that it would start. */
  claim(given: { key: string | undefined; body: ArrivingBody; run: SignalRun }): SignalClaim;
}

export interface Coalescing {
  /** CEL over body and headers: deliveries with the same value share a run. */
  readonly key: string;
  /** What a delivery brings, and when its run starts if no other joins. */
  claim(
    given: { readonly at: number } & Pick<CoalesceClaim, 'key' | 'isTrusted'> & Pick<RunTrigger, 'body' | 'headers'>,
  ): { readonly claim: CoalesceClaim; readonly dueAt: number };
}

type SignalRun = { readonly deliveryId: string | null; readonly startedAt: number; readonly trigger: RunTrigger };

/** What decides besides a trigger's own fields. */
export interface TriggerInForce {
  /** Its own mode, or that of the service. */
  readonly mode: EnforcementMode;
}

/** What of a trigger decides about an object of it. */
export interface TriggerFacts extends TriggerInForce {
  readonly isShared: boolean;
  readonly verifies: boolean;
  /** For how many days it knows an event; undefined where nothing tells its events apart. */
  readonly eventDays: number | undefined;
}

interface ObjectProblem {
  readonly kind: 'error' | 'warning' | 'weakness';
  /** Field of the object; the object itself without one. */
  readonly field?: string;
  readonly message: string;
}

interface ObjectChange {
  readonly class: 'safe' | 'caution';
  /** After the key of the trigger: "How `KEY` …", or "How deliveries of `KEY` …". */
  readonly what: string;
  /** Of deliveries: the runs that the trigger started may read what changed. */
  readonly of?: 'deliveries';
  readonly consequence: string;
  readonly advice?: string;
}

export function triggerPart<const Fields extends Schemas, const Objects extends TriggerObjects = Record<never, never>>(
  part: TriggerPart<Fields, Objects>,
): TriggerPart<Fields, Objects> {
  return part;
}
