import { z } from 'zod';
import { decodeUtf8 } from '../../expressions/trigger-body.ts';
import { defineHandler, type StepContext, type StepHandler } from '../../flows/handlers/handler.ts';
import type { Outside, Request } from '../../flows/handlers/outside.ts';
import { CREDENTIAL_NAME, queryOf } from '../../manifest/mask.ts';
import { isJsonObject, type Json, type JsonObject, own, parseJson } from '../../model/json.ts';
import { resultOf, UNKNOWN } from '../rehearsal/calls.ts';
import { isHidden, shownUrl } from '../rehearsal/hidden-secrets.ts';
import { type HttpRequestInputs, httpRequestInputs } from './http-inputs.ts';
import { judgePoll } from './http-poll.ts';
import { expectationOf, HTTP_SECRET_INPUTS, type HttpRequest, judgeAnswer, requestOf } from './http-request.ts';

/** An `HttpRequest` that sends nothing: it judges the given answer as if it had just come. */
export function rehearsedRequest({ answer }: Outside): StepHandler {
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
      // The given answer is the one that ended the poll; answers to further requests are unknown.
      const isEnough = pollsIn(context) >= inputs.pollMinAttempts;
      return polled.kind === 'waiting' && isEnough ? UNKNOWN : polled;
    },
  });
}

/** The resolved inputs, together with the parsed ones. */
const withWritten = z.custom<Json>().transform((written, context) => {
  const { data, error } = httpRequestInputs.safeParse(written);
  if (data !== undefined) return { written, parsed: data };
  for (const { path, message } of error.issues) context.addIssue({ code: 'custom', path, message });
  return z.NEVER;
});

/** Number of the poll's requests, including this one. */
function pollsIn({ resumed }: Pick<StepContext, 'resumed'>): number {
  const state = resumed?.state;
  const polls = state !== undefined && isJsonObject(state) ? own(state, 'polls') : undefined;
  return typeof polls === 'number' ? polls + 1 : 1;
}

/** The host's answer in the output of a step; undefined if there was none, such as after a network error. */
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

/** A value without a reference can come from an earlier answer, such as a token. */
function withoutCredential(name: string, value: string): string {
  return CREDENTIAL_NAME.test(name) && !isHidden(value) ? CREDENTIAL : value;
}

/** The URL as it is sent, without a fragment. */
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

/** Names the key that signs a request: this is as informative as the signature. */
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
