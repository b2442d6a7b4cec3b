import { hash } from 'node:crypto';
import { compileCondition } from '../expressions/condition.ts';
import { isOfBody } from '../expressions/context.ts';
import {
  compileEventId,
  compileKey,
  type DeliveryData,
  deliveryData,
  evaluateEventId,
  evaluateFilter,
  evaluateKey,
  readEventId,
} from '../expressions/delivery-expressions.ts';
import { valueAt } from '../expressions/json-path.ts';
import type { ArrivingBody } from '../expressions/trigger-body.ts';
import { ConversionError } from '../expressions/values.ts';
import { isOff } from '../manifest/trigger-expressions.ts';
import { coalescingOf, objectsOf, signalsOf } from '../manifest/trigger-objects.ts';
import { filterOf, type ObjectsOfTrigger } from '../manifest/webhook-fields.ts';
import type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';
import { DAY_MS } from '../model/clock.ts';
import type { Delivery, GateResult } from '../model/delivery.ts';
import type { Json } from '../model/json.ts';
import type { Evidence } from './gate.ts';
import { coverageOf, coversBody, isInPlace, signsTimestamp } from './schemes/layout.ts';
import type { ResolvedScheme } from './schemes/resolve.ts';
import type { FoundValue, SignatureSpec } from './schemes/spec.ts';
import type { StandardScheme } from './schemes/standards/standard.ts';

/** The results of a trigger's expressions for one delivery that passed its gates. */
export interface ExpressionResults {
  /** The field whose condition the delivery does not meet: it starts no run, unless it counts as a repetition. */
  readonly filteredBy: string | undefined;
  /** Undefined if the delivery names no event. */
  readonly eventId: string | undefined;
  /** Deliveries with the same key share a run, or answer runs; undefined if the delivery does neither. */
  readonly key: string | undefined;
  /** An expression gave no usable result: the run starts as if the expression were not there. */
  readonly isUnevaluated: boolean;
  /** Results for the record, after those of the gates. */
  readonly notices: readonly GateResult[];
}

interface Judged {
  readonly verifiedHeaders: Evidence['verifiedHeaders'] | undefined;
  /** The event id of an unverified delivery is not read. */
  readonly isTrusted: boolean;
}

/** Evaluates the expressions of a trigger. Never throws. */
export type JudgeByExpressions = (
  headers: Delivery['headers'],
  body: ArrivingBody,
  judged: Judged,
) => ExpressionResults;

type Trigger = Pick<WebhookTrigger, 'inputs'>;

/** Undefined if the trigger has no expressions, so that they cost nothing. */
export function prepareExpressions(
  trigger: Trigger,
  scheme: ResolvedScheme | undefined,
): JudgeByExpressions | undefined {
  const given = filterOf(trigger.inputs);
  const readId = prepareEventId(eventIdentityOf(trigger, scheme));
  const signals = signalsOf(trigger);
  const readKey = prepareKey((signals ?? coalescingOf(trigger))?.key);
  const instead = signals === undefined ? 'the run starts' : 'no run is answered';
  if (given === undefined && readId === undefined && readKey === undefined) return undefined;
  const filter = given && { ...given, compiled: compileCondition(given.condition, 'delivery') };
  return (headers, body, { verifiedHeaders, isTrusted }) => {
    // Headers of the scheme's other families were never verified.
    const verified = verifiedHeaders === undefined ? headers : { ...headers, ...Object.fromEntries(verifiedHeaders) };
    const data = deliveryData(verified, body);
    const id = isTrusted ? readId?.(data) : undefined;
    const passes = filter === undefined ? true : evaluateFilter(filter.compiled, data);
    const key = readKey?.(data);
    const notices: GateResult[] = [];
    if (typeof id === 'object') notices.push(noticeOf('webhookEventId', 'not evaluated', `${id.error}; ${instead}`));
    if (filter !== undefined && typeof passes === 'object') {
      notices.push(noticeOf(filter.field, 'not evaluated', `${passes.error}; ${instead}`));
    }
    const name = signals === undefined ? 'coalesce.key' : 'signals.key';
    if (typeof key === 'object') notices.push(noticeOf(name, 'not evaluated', `${key.error}; ${instead}`));
    const isUnevaluated = notices.length > 0;
    if (filter !== undefined && passes === false) {
      notices.push(noticeOf(filter.field, 'failed', `it is false, so no run starts: ${filter.condition}`));
    }
    const eventId = typeof id === 'string' ? keptId(id) : undefined;
    // A run too many loses nothing. Answering is access, so every expression must have worked.
    const isKeyed = typeof key === 'string' && (signals === undefined || !isUnevaluated);
    const filteredBy = passes === false ? filter?.field : undefined;
    return { filteredBy, eventId, key: isKeyed ? key : undefined, isUnevaluated, notices };
  };
}

const noticeOf = (gate: string, outcome: GateResult['outcome'], detail: string): GateResult => ({
  gate,
  outcome,
  reason: null,
  detail,
  facts: {},
});

/** An id that is very long, looks like a digest, or might not be stored unchanged is replaced by its digest. */
function keptId(id: string): string {
  const isPlain = id.length <= 255 && !/^sha256:|\p{Surrogate}|\0/u.test(id);
  return isPlain ? id : `sha256:${hash('sha256', Buffer.from(id, 'utf16le'))}`;
}

function prepareKey(source: string | undefined): ReadId | undefined {
  if (source === undefined) return undefined;
  const compiled = compileKey(source);
  return typeof compiled === 'string' ? undefined : (data) => evaluateKey(compiled.expression, data);
}

/** How the events of a trigger are identified, and which parts the holder of a delivery could change. */
export interface EventIdentity {
  /** The source of the id; a trigger's object is given by its name. */
  readonly by: 'scheme' | 'trigger' | keyof ObjectsOfTrigger;
  /** The id as an expression. */
  readonly expression: string;
  readonly days: number;
  /** Parts that the scheme does not sign; undefined if only operator code knows what is signed. */
  readonly unsigned: readonly string[] | undefined;
  /** The place of the id, if it comes from the scheme. */
  readonly found?: FoundValue | undefined;
}

const DEFAULT_DAYS = 30;

export const eventLifeMs = ({ webhookEventIdDays: days = DEFAULT_DAYS }: WebhookInputs) => days * DAY_MS;

/**
 * The trigger's own identity; else its scheme's, if the publisher documents and signs the id; else that of one of its
 * objects, such as the log that it is reconciled with. Undefined if there is none.
 */
export function eventIdentityOf(trigger: Trigger, scheme: ResolvedScheme | undefined): EventIdentity | undefined {
  const { webhookEventId: own, webhookEventIdDays: days = DEFAULT_DAYS } = trigger.inputs;
  if (own === undefined) {
    const found = scheme?.kind === 'spec' ? signedIdOf(scheme) : undefined;
    if (found === undefined) {
      const [known] = objectsOf(trigger).flatMap(([by, object, written]) => {
        const expression = object.eventId?.(written);
        return expression === undefined ? [] : [{ by, expression }];
      });
      return known && { ...known, days, unsigned: unsignedParts(known.expression, scheme) };
    }
    const document = scheme?.kind === 'spec' ? scheme.spec.document : undefined;
    const root = document !== undefined && document.mediaType === undefined ? 'envelope' : 'body';
    const expression = 'path' in found ? [root, ...found.path].join('.') : `headers["${headerName(found)}"]`;
    return { by: 'scheme', expression, days, unsigned: [], found };
  }
  if (isOff(own)) return undefined;
  return { by: 'trigger', expression: own, days, unsigned: unsignedParts(own, scheme) };
}

const headerName = ({ headers }: Extract<FoundValue, { headers: readonly string[] }>) =>
  (headers[0] ?? '').toLowerCase();

/** Both keys open the trigger, so the id counts only if both forms sign it. */
function signedIdOf({ spec, previousSpec = spec }: Extract<ResolvedScheme, { kind: 'spec' }>): FoundValue | undefined {
  const { eventId, eventIdSource } = spec;
  if (eventId === undefined || 'none' in eventId || eventIdSource === undefined) return undefined;
  const isSigned = [spec, previousSpec].every((form) =>
    'path' in eventId ? coversBody(form) : eventId.headers.every((name) => signsHeader(form, name)),
  );
  return isSigned ? eventId : undefined;
}

function signsHeader(spec: SignatureSpec, header: string): boolean {
  const is = (name: string | undefined) => name?.toLowerCase() === header.toLowerCase();
  const isId = isInPlace(spec, 'deliveryId') && spec.headers.some(({ deliveryId }) => is(deliveryId));
  const isPart = spec.signs.some((it) => typeof it !== 'string' && it.part === 'header' && is(it.name));
  if (isPart && coverageOf(spec).body) return true;
  return isId || (signsTimestamp(spec) && spec.headers.some(({ timestamp }) => is(timestamp)));
}

function unsignedParts(source: string, scheme: ResolvedScheme | undefined): readonly string[] | undefined {
  if (scheme?.kind === 'verifier') return undefined;
  const compiled = compileEventId(source);
  if (typeof compiled === 'string') return [];
  if (scheme?.kind === 'standard') return unsignedByStandard(compiled, scheme.standard);
  const forms = scheme === undefined ? [] : [scheme.spec, scheme.previousSpec ?? scheme.spec];
  const isSigned = (check: (spec: SignatureSpec) => boolean) => forms.length > 0 && forms.every(check);
  const headers = compiled.headers.filter((name) => !isSigned((spec) => signsHeader(spec, name)));
  const readsBody = [...compiled.expression.roots].some(isOfBody) && !isSigned(coversBody);
  return [...(readsBody ? ['the body'] : []), ...headers.map((name) => `the header ${name}`)];
}

function unsignedByStandard(
  { headers, expression }: Exclude<ReturnType<typeof compileEventId>, string>,
  { coverage, rule }: StandardScheme,
): readonly string[] {
  const signed = rule.standard === 'HttpMessageSignatures' ? rule.components : [];
  const open = headers.filter((name) => !signed.includes(name.toLowerCase()));
  const readsBody = [...expression.roots].some(isOfBody) && !coverage.body;
  return [...(readsBody ? ['the body'] : []), ...open.map((name) => `the header ${name}`)];
}

/** The id, or why it is missing although it should be there, or undefined if this form of delivery has none. */
type ReadId = (data: DeliveryData) => string | { readonly error: string } | undefined;

function prepareEventId(identity: EventIdentity | undefined): ReadId | undefined {
  if (identity === undefined) return undefined;
  const { expression: name, found } = identity;
  if (found !== undefined) {
    return ({ roots }) => {
      try {
        const value = valueIn(roots, found);
        return value === undefined ? undefined : readEventId(value, name);
      } catch (error) {
        if (error instanceof ConversionError) return { error: error.message };
        throw error;
      }
    };
  }
  const compiled = compileEventId(name);
  return typeof compiled === 'string' ? undefined : (data) => evaluateEventId(compiled.expression, data);
}

function valueIn(roots: DeliveryData['roots'], found: FoundValue): Json | undefined {
  if ('headers' in found) {
    const headers = roots.headers as Delivery['headers'];
    const name = found.headers.map((each) => each.toLowerCase()).find((each) => Object.hasOwn(headers, each));
    return name === undefined ? undefined : headers[name];
  }
  return valueAt(roots.envelope, found.path) as Json | undefined;
}
