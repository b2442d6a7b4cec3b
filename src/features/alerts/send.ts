import { connect } from 'node:net';
import { z } from 'zod';
import { createEgress, EgressRefusedError } from '../../flows/handlers/egress.ts';
import {
  defineHandler,
  type HandlerResult,
  noSignals,
  type StepContext,
  type StepHandler,
} from '../../flows/handlers/handler.ts';
import { InternalFaultError, loadOnce } from '../../flows/load-once.ts';
import type { SecretReader } from '../../manifest/read-secret.ts';
import { SEVERITIES } from '../../model/attention.ts';
import { timeOfId } from '../../model/ids.ts';
import type { Json } from '../../model/json.ts';
import { standardWebhooks } from '../../webhooks/schemes/publishers/standard-webhooks.ts';
import { signDelivery } from '../../webhooks/schemes/sign.ts';
import { httpRequestInputs } from '../http-request/http-inputs.ts';
import { createHttpRequestHandler } from '../http-request/http-request.ts';
import { type AlertMessage, chatBody, jsonBody, plainText, printableMessage } from './message.ts';
import { pagerRequest } from './pagers.ts';
import { type AlertTarget, resolveTarget } from './targets.ts';

interface SenderSettings {
  /** Read at each attempt. */
  readonly targets: () => readonly AlertTarget[];
  /** The service's name. */
  readonly service: string;
  readonly readSecret: SecretReader;
  /** Allowed addresses in addition to public ones. */
  readonly egressAllow: readonly string[];
}

/** One attempt to notify a target. */
interface AlertAttempt extends Pick<StepContext, 'idempotencyKey' | 'now' | 'signal'> {
  readonly target: string;
  readonly message: AlertMessage;
  /** When it was queued, milliseconds since the Unix epoch: a message has the same bytes in each attempt. */
  readonly queuedAt?: number | undefined;
}

/** Sends one message to a target; the result contains no secret. Rejects only with `InternalFaultError`. */
export type AlertSender = (attempt: AlertAttempt) => Promise<HandlerResult>;

const TIMEOUT_SECONDS = 30;

/** Uses the egress of HttpRequest: private addresses are refused unless the settings allow them. */
export function createAlertSender({ targets, service, readSecret, egressAllow }: SenderSettings): AlertSender {
  const http = createHttpRequestHandler({ egressAllow });
  const egress = createEgress(egressAllow);
  return async ({ target: name, ...attempt }) => {
    const known = targets().find((target) => target.name === name);
    if (known === undefined) return failed('invalid_input', `SLUICE_ALERTS has no target ${JSON.stringify(name)}`);
    const resolved = resolveTarget(known, readSecret);
    if ('error' in resolved) return failed('secret_unavailable', `the target ${name}: ${resolved.error}`, true);
    const { target, mask } = resolved;
    // Programs read the text as it is, but a person's display would obey control characters that a sender put into it.
    const shown = { ...attempt, message: target.type === 'json' ? attempt.message : printableMessage(attempt.message) };
    const result =
      target.type === 'smtp'
        ? await mail(target, shown, egress)
        : await post(
            await requestTo(target, { ...shown, service }),
            { ...shown, mask: (text) => String(mask(text)) },
            http,
          );
    return mask(result as unknown as Json) as unknown as HandlerResult;
  };
}

function failed(code: string, message: string, retryable = false): HandlerResult {
  return { kind: 'failed', code, message, retryable };
}

type Posted = Exclude<AlertTarget, { type: 'smtp' }>;
type Attempt = Omit<AlertAttempt, 'target'>;

interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Json;
}

function requestTo(
  target: Posted,
  { message, idempotencyKey, service, now, queuedAt = now() }: Attempt & { readonly service: string },
): Post {
  if (target.type === 'pagerduty' || target.type === 'opsgenie') {
    return pagerRequest(target, { message, service, id: idempotencyKey });
  }
  if (target.type !== 'json') return { url: target.url, headers: {}, body: chatBody(target.type, message) };
  const timestampMs = now();
  const body = jsonBody(message, { at: queuedAt, service });
  const { headers } = signDelivery({
    spec: standardWebhooks,
    key: target.secret,
    // The same bytes as HttpRequest writes.
    body: Buffer.from(JSON.stringify(body)),
    url: target.url,
    timestampMs,
    deliveryId: idempotencyKey,
    contentType: 'application/json',
  });
  return { url: target.url, headers, body };
}

const ANSWER_CHARACTERS = 200;

/** A redirect is a mistake in the file: if followed, the POST would become a GET that delivers nothing. */
async function post(
  { url, headers, body }: Post,
  attempt: Attempt & Pick<StepContext, 'mask'>,
  http: StepHandler,
): Promise<HandlerResult> {
  const inputs = httpRequestInputs.parse({
    url,
    headers,
    body,
    method: 'POST',
    timeoutSeconds: TIMEOUT_SECONDS,
    expectedStatuses: ['2xx', '3xx'],
  });
  const result = await http.run({ ...attempt, inputs } as unknown as StepContext);
  if (result.kind === 'waiting') return failed('handler_error', 'the request was not sent');
  const { status, body: answer = null } = (result.output ?? {}) as { status?: number; body?: Json };
  const shown = typeof answer === 'string' ? answer : JSON.stringify(answer);
  const output = { status: status ?? null, answer: shown.slice(0, ANSWER_CHARACTERS) };
  if (result.kind === 'failed') return status === undefined ? result : { ...result, output };
  if (status !== undefined && status >= 300) {
    const message = `POST ${new URL(url).host} answered ${status}, a redirect, which is not followed; correct the URL`;
    return { kind: 'failed', code: 'redirect_refused', message, retryable: false, output };
  }
  return { kind: 'succeeded', output };
}

type Mailed = Extract<AlertTarget, { type: 'smtp' }>;

/** Loaded only when mail is sent. */
const loadMailer = loadOnce(() => import('nodemailer'));

const SUBJECT_CHARACTERS = 150;

async function mail(target: Mailed, attempt: Attempt, egress: ReturnType<typeof createEgress>): Promise<HandlerResult> {
  const { host, security, user, password, from, to } = target;
  const port = target.port ?? (security === 'tls' ? 465 : 587);
  const label = `${host}:${port}`;
  const { message, idempotencyKey, signal, now, queuedAt = now() } = attempt;
  try {
    const { createTransport } = await loadMailer();
    const socket = await connected({ host, port, egress, signal });
    const end = () => socket.destroy();
    signal.addEventListener('abort', end);
    try {
      const transport = createTransport({
        connection: socket,
        host,
        port,
        secure: security === 'tls',
        requireTLS: security === 'starttls',
        ignoreTLS: security === 'none',
        greetingTimeout: TIMEOUT_SECONDS * 1000,
        socketTimeout: TIMEOUT_SECONDS * 1000,
        disableFileAccess: true,
        disableUrlAccess: true,
        ...(user === undefined ? {} : { auth: { user, pass: password ?? '' } }),
      } as Parameters<typeof createTransport>[0]);
      const info = await transport.sendMail({
        from,
        to,
        subject: message.text.replace(/\s+/g, ' ').slice(0, SUBJECT_CHARACTERS),
        text: plainText(message),
        date: new Date(queuedAt),
        // The same in each attempt, so that a mail sent again because its answer got lost is recognizable.
        messageId: `<${idempotencyKey.replace(/[^\w.-]/g, '.')}@sluice>`,
      });
      return { kind: 'succeeded', output: { status: null, answer: String(info.response).slice(0, ANSWER_CHARACTERS) } };
    } finally {
      signal.removeEventListener('abort', end);
      end();
    }
  } catch (error) {
    return mailFailure(error, label);
  }
}

/** A socket to an allowed address. */
function connected({
  host,
  port,
  egress,
  signal,
}: {
  host: string;
  port: number;
  egress: ReturnType<typeof createEgress>;
  signal: AbortSignal;
}) {
  egress.checkLiteral(host);
  const socket = connect({ host, port, lookup: egress.lookup as never, timeout: TIMEOUT_SECONDS * 1000, signal });
  return new Promise<typeof socket>((resolve, reject) => {
    socket.once('error', reject);
    socket.once('timeout', () => socket.destroy(new Error('no connection in time')));
    socket.once('connect', () => {
      socket.setTimeout(0);
      resolve(socket);
    });
  });
}

function mailFailure(error: unknown, label: string): HandlerResult {
  if (error instanceof InternalFaultError) throw error;
  if (error instanceof EgressRefusedError) return failed('egress_refused', `${label}: ${error.message}`);
  const { responseCode, code, message } = Object(error) as { responseCode?: number; code?: string; message?: string };
  const what = `${label}: ${String(message ?? code ?? 'the mail could not be sent').slice(0, 500)}`;
  if (responseCode !== undefined) return failed('unexpected_status', what, responseCode < 500);
  // Retrying is useless: the server does not offer what the file asks for, so one of them has to be corrected.
  return failed('network_error', what, code !== 'ETLS' && code !== 'EAUTH' && code !== 'ENOAUTH');
}

const line = z.object({ text: z.string(), link: z.string().nullish() });
const alert = z.strictObject({
  status: z.enum(['firing', 'resolved']),
  kind: z.string(),
  severity: z.enum(SEVERITIES),
  flow: z.object({ id: z.string(), name: z.string() }).nullable(),
  trigger: z.string().nullable(),
  since: z.string(),
  dedupKey: z.string().min(1),
});
const inputs = z.strictObject({
  target: z.string().min(1).describe('Name of a target in the file that SLUICE_ALERTS names.'),
  text: z.string().min(1).max(4000).describe('One line that says what happened.'),
  link: z
    .url({ protocol: /^https?$/ })
    .nullish()
    .describe('URL to open for details.'),
  lines: z.array(line).max(100).default([]).describe('More lines.'),
  more: z.int().min(0).default(0).describe('How many further events are not listed.'),
  alert: alert.nullish().describe('The alert that a program is told of; set in the messages of Sluice itself.'),
});

/** The step type that notifies a target; its secrets are read at each attempt, and no input holds one. */
export function createSendAlertHandler(send: AlertSender): StepHandler {
  return defineHandler({
    type: 'SendAlert',
    inputs,
    waitsFor: noSignals,
    run: ({ inputs: { target, ...given }, runId, idempotencyKey, now, signal }) => {
      const message = { ...given, link: given.link ?? undefined, alert: given.alert ?? undefined };
      return send({ target, message, queuedAt: timeOfId(runId), idempotencyKey, now, signal });
    },
  });
}
