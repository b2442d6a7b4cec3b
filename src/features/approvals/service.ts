import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { isoTime } from '../../dashboard/answer.ts';
import { noteEnd } from '../../dashboard/interventions.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { HttpError, UnfitClockError } from '../../errors.ts';
import { repeatedIn } from '../../manifest/json-text.ts';
import { type Clock, MINUTE_MS } from '../../model/clock.ts';
import { isJsonObject, own, parseJson } from '../../model/json.ts';
import { parseRuntimeKey } from '../../model/runtime-keys.ts';
import { addressGroup } from '../../webhooks/networks/addresses.ts';
import { senderOf } from '../../webhooks/read-delivery.ts';
import { answerPage, STYLE, STYLE_NAME } from './answer-page.ts';
import { ANSWERS, type Link, type Question } from './links.ts';
import { approvalsStepTypes } from './step-types.ts';
import { approvalsStore, type Wait } from './store.ts';

/** A choice has 64 characters, each up to nine bytes in a form. */
const MAX_BODY_BYTES = 4096;
/** Nobody can guess a valid token: the limit only keeps attempts cheap. */
const WRONG_A_MINUTE = 20;
const RIGHT_A_MINUTE = 120;

/** Browsers may have a dashboard session: these pages load only their style sheet and post only to their address. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; sandbox allow-forms",
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
};

type Shown = Omit<Parameters<typeof answerPage>[0], 'service'> & { readonly statusCode: number };

const openRoutes: ApiRoutes = (app, services) => {
  const answer = answerer(services);
  app.route({
    method: app.supportedMethods,
    // Not an empty token: that is the webhook of that name with a slash after it.
    url: `${ANSWERS}/:token(^.+$)`,
    bodyLimit: MAX_BODY_BYTES,
    schema: { hide: true },
    onRequest: async (_request, reply) => {
      reply.headers(HEADERS);
    },
    handler: async (request, reply) => {
      if (services.isStopping()) throw new HttpError('stopping', 'The process is stopping');
      if (!METHODS.has(request.method)) {
        reply.header('allow', 'GET, HEAD, POST');
        throw new HttpError(405, 'A link to an answer takes GET, HEAD and POST');
      }
      const { token } = request.params as { token: string };
      if (token === STYLE_NAME && request.method !== 'POST') return style(reply);
      const { statusCode, ...page } = await answer(request, token);
      if (statusCode === 429) reply.header('retry-after', '60');
      const html = answerPage({ service: services.serviceName, ...page });
      return reply.code(statusCode).type('text/html; charset=utf-8').send(html);
    },
  });
};

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST']);

function style(reply: FastifyReply): FastifyReply {
  // A page in a sandbox has an opaque origin, so a same-origin style sheet would be blocked.
  return reply.header('cross-origin-resource-policy', 'cross-origin').type('text/css; charset=utf-8').send(STYLE);
}

const NEVER_GIVEN: Shown = { statusCode: 404, title: 'There is no such question', about: 'Check the link.' };
const TOO_MANY: Shown = { statusCode: 429, title: 'Too many requests', about: 'Try again in a minute.' };
const GONE: Shown = {
  statusCode: 410,
  title: 'This question takes no answer any more',
  about: 'It was answered, its time is over, or its run has ended.',
};

function answerer(services: DashboardServices): (request: FastifyRequest, token: string) => Promise<Shown> {
  const { store, clock, senderAddress } = services;
  const links = services.extensions.of(approvalsStepTypes);
  const isGuessing = boundByAddress(clock, WRONG_A_MINUTE);
  const asksTooOften = boundByAddress(clock, RIGHT_A_MINUTE);
  return async (request, token) => {
    const address = senderOf(request, senderAddress);
    const link = links.isOn ? await links.open(token) : undefined;
    // People with a valid link are not held up by guesses from the same address.
    if (link === undefined) return isGuessing(address) ? TOO_MANY : NEVER_GIVEN;
    if (asksTooOften(address)) return TOO_MANY;
    if (!clock.isFit()) throw new UnfitClockError();
    const wait = link.expiresAt > clock.now() ? await store.of(approvalsStore).findWait(link) : undefined;
    if (wait?.isOpen !== true) return GONE;
    const question = await links.questionOf(wait.flowId, link.stepKey, wait.revision);
    if (question === undefined) return GONE;
    const shown = asked(link, wait, question);
    const inQuery = own(Object(request.query), 'choice');
    if (request.method !== 'POST') return { statusCode: 200, ...shown, picked: String(inQuery) };
    const choice = isEmpty(request) ? inQuery : choiceIn(request);
    if (inQuery !== undefined && inQuery !== choice) {
      return {
        statusCode: 400,
        ...shown,
        problem: 'The address and what was sent name different choices. Choose one.',
      };
    }
    if (typeof choice !== 'string' || !question.choices.includes(choice)) {
      return { statusCode: 400, ...shown, problem: 'Choose one of these.' };
    }
    switch (await take({ link, question, choice, address }, services)) {
      case 'taken':
        return { statusCode: 200, title: `Your answer was taken: ${choice}`, about: shown.title };
      case 'busy':
        return { statusCode: 503, ...shown, problem: 'The step is at work. Try again in a moment.' };
      default:
        return GONE;
    }
  };
}

/** A question from an expression is known once the step waits. */
function asked({ stepKey }: Link, { flowName, startedAt, input }: Wait, { text, choices }: Question) {
  const { localKey, iteration } = parseRuntimeKey(stepKey);
  const rendered = isJsonObject(input) ? own(input, 'question') : undefined;
  const title = text ?? (typeof rendered === 'string' ? rendered : `${flowName}: ${localKey}?`);
  const round = iteration === null ? '' : `, round ${iteration.index + 1}`;
  const about = `${flowName}, step ${localKey}${round}, of the run that started at ${isoTime(startedAt).replace(/\.\d+Z$/, 'Z')}`;
  return { title, about, choices };
}

const isEmpty = ({ body }: FastifyRequest): boolean => !Buffer.isBuffer(body) || body.byteLength === 0;

function choiceIn({ body, headers }: FastifyRequest): unknown {
  const text = String(body);
  if (!/json/i.test(headers['content-type'] ?? '')) {
    const choices = new URLSearchParams(text).getAll('choice');
    return choices.length === 1 ? choices[0] : undefined;
  }
  try {
    const value = parseJson(text);
    // Whoever sent one name with two values did not choose.
    if (repeatedIn(text).length > 0) return undefined;
    return isJsonObject(value) ? own(value, 'choice') : undefined;
  } catch {
    return undefined;
  }
}

const STATUS = { taken: 200, gone: 410, busy: 503 } as const;

interface Taking {
  readonly link: Link;
  readonly question: Question;
  readonly choice: string;
  readonly address: string;
}

/** Recorded in the activity before it happens, like everything that people do to a run. */
async function take({ link, question, choice, address }: Taking, services: DashboardServices) {
  const { store, activity, clock, newId } = services;
  const { runId, stepKey } = link;
  const at = clock.now();
  const about = {
    actor: 'anyone',
    clientIp: address,
    action: 'answerByLink',
    target: { type: 'run', id: runId },
  } as const;
  const intervention = { id: newId(), at, ...about, details: { step: stepKey, choice }, reason: null };
  await activity.begin(intervention);
  const body = { choice, answeredAt: isoTime(at), by: 'link' };
  const { signalName } = question;
  const result = await store.of(approvalsStore).answerWait({ runId, stepKey, signalName, body, at });
  if (result === 'taken') services.extensions.of(approvalsStepTypes).onAnswered();
  await noteEnd(intervention, { statusCode: STATUS[result] }, services);
  return result;
}

/** Forgets the address that it saw longest ago first, so that a flood of addresses costs no memory. */
const MAX_REMEMBERED = 10_000;

/** Makes a check whether an address, or an IPv6 /64, asked more than `mostAMinute` times in a minute. */
function boundByAddress(clock: Clock, mostAMinute: number): (address: string) => boolean {
  // Takes 200 kB even when empty, so it is made for the first question.
  let asked: LRUCache<string, { count: number; readonly since: number }> | undefined;
  return (address) => {
    asked ??= new LRUCache({ max: MAX_REMEMBERED });
    const group = addressGroup(address);
    const now = clock.monotonic();
    const known = asked.get(group);
    const own = known !== undefined && now - known.since < MINUTE_MS ? known : { count: 0, since: now };
    own.count += 1;
    asked.set(group, own);
    return own.count > mostAMinute;
  };
}

export const approvals = servicePart({ name: 'approvals', openRoutes });
