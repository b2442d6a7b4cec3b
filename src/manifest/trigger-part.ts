import type { z } from 'zod';
import type { ArrivingBody } from '../expressions/trigger-body.ts';
import type { GivenAnswer } from '../model/answer.ts';
import type { CoalesceClaim, SignalClaim } from '../model/delivery.ts';
import type { Json } from '../model/json.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { RunTrigger } from '../model/run.ts';
import type { SearchKeys } from '../model/search-keys.ts';

/** Rows of fields, as far as a part itself reads them. */
type Schemas = Readonly<Record<string, { readonly schema: z.ZodType }>>;

/** A feature's additions to a webhook trigger. `features/trigger.ts` lists the parts. */
export interface TriggerPart<Fields extends Schemas, Objects extends TriggerObjects = TriggerObjects> {
  readonly name: string;
  /** Fields of the trigger's inputs. */
  readonly fields: Fields;
  /** Objects next to the inputs, by name. */
  readonly objects?: Objects;
  /** Warnings for the author by field, if the trigger has no mistakes. */
  warnings?(inputs: Given<Fields>, trigger: TriggerInForce): Partial<Readonly<Record<keyof Fields, string>>>;
  /** Requests that are answered instead of being accepted as deliveries, as its fields describe. */
  handshakes?(inputs: Given<Fields>): readonly OwnHandshake[];
  /** Decides which deliveries start a run; absent if all do. */
  filter?(inputs: Given<Fields>): DeliveryFilter | undefined;
}

/** CEL condition over body and headers, and its field: a delivery for which it is false starts no run. */
export interface DeliveryFilter {
  readonly field: string;
  readonly condition: string;
}

/** A `Handshake` of `webhooks/schemes`, limited to the part of a request that trigger fields can read. */
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

/** An object next to the inputs of webhook triggers, such as `"reconcile": { … }`. */
export interface TriggerObject<Schema extends z.ZodType = z.ZodType, Written = z.output<Schema>> {
  readonly schema: Schema;
  /** Names of all fields in any of its forms; absent if they are the author's own. */
  readonly keys?: readonly string[];
  /** Manual triggers can have it too: it reads body and headers. */
  readonly isOnManual?: true;
  /** Whether it fetches missed deliveries, whose originals can arrive later. */
  readonly fetches: boolean;
  /** Paths of secret values, as for a step's inputs: `*` matches any key. */
  secrets(written: Written): readonly string[];
  /** CEL over body and headers that identifies events, if neither the trigger nor its scheme does. */
  eventId?(written: Written): string | undefined;
  /** The signals that its deliveries send instead of starting runs; absent if they start runs. */
  signals?(written: Written): Signalling;
  /** How its deliveries share runs; absent if each has a run of its own. */
  coalesces?(written: Written): Coalescing;
  /** Values by which people find its deliveries and runs. */
  searchKeys?(written: Written): KeyReader;
  /** Its mistakes, whatever the scheme and the keys of its trigger; errors unless they say otherwise. */
  mistakes?(written: Written, inputs: Readonly<Record<string, unknown>>): readonly ObjectMistake[];
  /** Its problems in a trigger whose inputs have no mistakes. */
  problems(written: Written, trigger: TriggerFacts): readonly ObjectProblem[];
  /** Names the content that is accepted without verification, its secrets left out; undefined if there is none. */
  unverified(written: Written, gates: { readonly verifies: boolean; readonly asksAddress: boolean }): Json | undefined;
  /** The effect of a changed object; undefined for a trigger without it. */
  changed(before: Written | undefined, after: Written | undefined): ObjectChange;
}

export interface Signalling {
  /** A `WaitForSignal` step of the flow; a step of a loop follows the keys of its loops, as in `orders.approval`. */
  readonly step: string;
  /** CEL over body and headers: it answers the runs whose step has the same `key`. */
  readonly key: string;
  /** The signal of a delivery; `run` is the one that it would start. */
  claim(given: { key: string | undefined; body: ArrivingBody; run: SignalRun }): SignalClaim;
}

export interface KeyReader {
  /** CEL over body and headers. */
  readonly expressions: readonly string[];
  /** The values of a run that is started by hand; undefined if it has none. Never throws. */
  read(headers: RunTrigger['headers'], body: ArrivingBody): SearchKeys | undefined;
}

export interface Coalescing {
  /** CEL over body and headers: deliveries with the same value share a run. */
  readonly key: string;
  /** The contribution of a delivery, and when its run starts if no other joins. */
  claim(
    given: { readonly at: number } & Pick<CoalesceClaim, 'key' | 'isTrusted'> & Pick<RunTrigger, 'body' | 'headers'>,
  ): { readonly claim: CoalesceClaim; readonly dueAt: number };
}

type SignalRun = { readonly deliveryId: string | null; readonly startedAt: number; readonly trigger: RunTrigger };

/** Facts besides a trigger's own fields that decide. */
export interface TriggerInForce {
  /** Its own mode, or that of the service. */
  readonly mode: EnforcementMode;
  readonly verifies: boolean;
}

/** Facts about a trigger that decide about its objects. */
export interface TriggerFacts extends TriggerInForce {
  readonly isShared: boolean;
  /** For how many days it remembers an event; undefined if nothing identifies its events. */
  readonly eventDays: number | undefined;
}

interface ObjectProblem {
  readonly kind: 'error' | 'warning' | 'weakness';
  /** Field of the object; absent for the object itself. */
  readonly field?: string;
  readonly message: string;
}

export type ObjectMistake = Omit<ObjectProblem, 'kind'> & { readonly kind?: 'warning' };

interface ObjectChange {
  readonly class: 'safe' | 'caution';
  /** Follows the key of the trigger: "How `KEY` …", or "How deliveries of `KEY` …". */
  readonly what: string;
  /** In place of "How". */
  readonly subject?: string;
  /** For deliveries: the runs that the trigger started can read what changed. */
  readonly of?: 'deliveries';
  readonly consequence: string;
  readonly advice?: string;
}

export function triggerPart<const Fields extends Schemas, const Objects extends TriggerObjects = Record<never, never>>(
  part: TriggerPart<Fields, Objects>,
): TriggerPart<Fields, Objects> {
  return part;
}
