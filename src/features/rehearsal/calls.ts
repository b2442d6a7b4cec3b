import { z } from 'zod';
import { mapStrings } from '../../expressions/json-path.ts';
import { decodeUtf8 } from '../../expressions/trigger-body.ts';
import { defineHandler, type HandlerResult, type StepContext, type StepHandler } from '../../flows/handlers/handler.ts';
import { type HttpRequestInputs, httpRequestInputs } from '../../flows/handlers/http-inputs.ts';
import { judgePoll } from '../../flows/handlers/http-poll.ts';
import {
  expectationOf,
  HTTP_SECRET_INPUTS,
  type HttpRequest,
  judgeAnswer,
  requestOf,
} from '../../flows/handlers/http-request.ts';
import { builtInHandlers, type HandlerTable, handlerTable } from '../../flows/handlers/index.ts';
import { CREDENTIAL_NAME, queryOf } from '../../manifest/mask.ts';
import { isJsonObject, type Json, type JsonObject, own, parseJson } from '../../model/json.ts';
import { isHidden, shownUrl } from './hidden-secrets.ts';
import { UNANSWERED } from './simulator.ts';

/** A request as it would have left, without secrets: those that the manifest names are `[secret env:NAME]`. */
export interface Request {
  readonly method: string;
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, or text, or base64 of what is neither; null where there is none. */
  readonly body: Json;
}

/** A step that would have called out. */
export interface Call {
  /** Of the step: see `Wait`. */
  readonly path: string;
  /** From 1. */
  readonly attempt: number;
  readonly type: string;
  /** Resolved inputs, without secrets. */
  readonly input: Json;
  /** Null of a step of another type than `HttpRequest`, whose code says what it calls. */
  readonly request: Request | null;
}

/**
 * How an attempt ended: with an output, or with an error, which may have one too. The output of an `HttpRequest` is its
 * answer `{ status, headers, body }`, which the step judges as if it had just come.
 */
export interface Answer {
  readonly output?: Json | undefined;
  readonly error?: { readonly code: string; readonly message: string; readonly retryable: boolean } | undefined;
}

/** Answers a call; undefined where the answer is not known, which is never made up: the step does not go on. */
export type AnswerCall = (call: Call) => Answer | undefined;

interface Outside {
  /** Whether a step runs for real is said by its type; every other is answered by this. */
  answer(call: Omit<Call, 'path'> & { readonly runId: string; readonly stepKey: string }): Answer | undefined;
}

const UNKNOWN: HandlerResult = { kind: 'waiting', signalName: UNANSWERED };

/** The same step types, of which none calls out: what does is answered instead. */
export function answeredHandlers(table: HandlerTable, outside: Outside): HandlerTable {
  const plain = new Map(builtInHandlers({ egressAllow: [] }).map((handler) => [handler.type, handler]));
  return handlerTable(
    [...table.values()].map((handler) => {
      if (handler.type === 'HttpRequest') return answeredRequest(outside);
      return plain.get(handler.type) === handler ? handler : answeredStep(handler, outside);
    }),
  );
}

/** Code of the operator's, of which nothing but its inputs is known. */
function answeredStep({ type, secretInputs }: StepHandler, { answer }: Outside): StepHandler {
  return defineHandler({
    type,
    inputs: z.custom<Json>(),
    secretInputs,
    run: ({ inputs, runId, stepKey, attempt }) =>
      resultOf(answer({ runId, stepKey, attempt, type, input: mapStrings(inputs, shownUrl), request: null })),
  });
}

function answeredRequest({ answer }: Outside): StepHandler {
  return defineHandler({
    type: 'HttpRequest',
    inputs: withWritten,
    secretInputs: HTTP_SECRET_INPUTS,
    calls: ({ parsed: { method, url } }) => ({ method, url }),
    run: async (given) => {
      const { parsed: inputs, written: input } = given.inputs;
      const context: StepContext<HttpRequestInputs> = { ...given, inputs, logger: given.logger };
      const { runId, stepKey, attempt } = context;
      const request = shown(await requestOf(context), context);
      const found = answer({ runId, stepKey, attempt, type: 'HttpRequest', input, request });
      const response = responseIn(found?.output);
      if (response === undefined || found?.error?.code === 'poll_timeout') return resultOf(found);
      const now = context.now();
      const result = judgeAnswer(response, { isExpected: expectationOf(inputs)(response.status), now });
      if (!inputs.pollEnabled) return result;
      const polled = judgePoll(result, inputs, { state: context.resumed?.state, now });
      // The answer is the one that ended the poll; what a further request would be answered is not known.
      const isEnough = pollsIn(context) >= inputs.pollMinAttempts;
      return polled.kind === 'waiting' && isEnough ? UNKNOWN : polled;
    },
  });
}

/** The inputs as they were resolved, next to what the schema makes of them. */
const withWritten = z.custom<Json>().transform((written, context) => {
  const { data, error } = httpRequestInputs.safeParse(written);
  if (data !== undefined) return { written, parsed: data };
  for (const { path, message } of error.issues) context.addIssue({ code: 'custom', path, message });
  return z.NEVER;
});

/** Requests of the poll, this one included. */
function pollsIn({ resumed }: Pick<StepContext, 'resumed'>): number {
  const state = resumed?.state;
  const polls = state !== undefined && isJsonObject(state) ? own(state, 'polls') : undefined;
  return typeof polls === 'number' ? polls + 1 : 1;
}

function resultOf(answer: Answer | undefined): HandlerResult {
  if (answer === undefined) return UNKNOWN;
  const { output = null, error } = answer;
  return error === undefined ? { kind: 'succeeded', output } : { kind: 'failed', ...error, output };
}

/** The answer of a host in what a step left; undefined where there was none, as after a network error. */
function responseIn(output: Json | undefined) {
  if (output === undefined || !isJsonObject(output)) return undefined;
  const { status, headers = {}, body = null } = output;
  if (typeof status !== 'number' || !isJsonObject(headers)) return undefined;
  return { status, headers: textsOf(headers), body };
}

function textsOf(headers: JsonObject): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

const CREDENTIAL = '[credential]';

function shown(
  { method, url, headers, body }: HttpRequest,
  { inputs, idempotencyKey }: StepContext<HttpRequestInputs>,
): Request {
  const own = [...headers].map(([name, value]): [string, string] => [name, withoutCredential(name, value)]);
  return {
    method,
    url: shownUrl(withoutCredentials(url)),
    headers: Object.fromEntries([...own, ...signatureOf(inputs, idempotencyKey)]),
    body: body === undefined ? null : bodyOf(body, headers.get('content-type')),
  };
}

/** A value that no reference names may come from an earlier answer, as a token does. */
function withoutCredential(name: string, value: string): string {
  return CREDENTIAL_NAME.test(name) && !isHidden(value) ? CREDENTIAL : value;
}

/** As it is sent, without a fragment. */
function withoutCredentials({ href, search }: URL): string {
  const [place = ''] = href.split(/[?#]/, 1);
  const pieces = queryOf(search).map(({ name, value }) => {
    const plain = decoded(value);
    if (isHidden(plain)) return name === undefined ? plain : `${name}=${plain}`;
    return name === undefined ? value : `${name}=${withoutCredential(decoded(name), value)}`;
  });
  return search === '' ? place : `${place}?${pieces.join('&')}`;
}

function decoded(text: string): string {
  return new URLSearchParams(`v=${text}`).get('v') ?? text;
}

/** Says with which key a request is signed, which tells as much as the signature does. */
function signatureOf({ signing }: HttpRequestInputs, id: string): [string, string][] {
  if (signing === undefined) return [];
  const by = isHidden(signing.key) ? signing.key : '[secret]';
  if (signing.scheme === 'Hmac') {
    const { header, algorithm, encoding, prefix } = signing;
    return [[header.toLowerCase(), `${prefix}[${algorithm} in ${encoding}, signed with ${by}]`]];
  }
  return [
    ['webhook-id', id],
    ['webhook-timestamp', '[time]'],
    ['webhook-signature', `v1,[signed with ${by}]`],
  ];
}

function bodyOf(body: Uint8Array | string, contentType: string | undefined): Json {
  const text = typeof body === 'string' ? body : decodeUtf8(body);
  if (text === undefined) return Buffer.from(body).toString('base64');
  if (!/\bjson\b/i.test(contentType ?? '')) return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}
