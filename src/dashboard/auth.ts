import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { HttpError } from '../errors.ts';
import { addressGroup } from '../webhooks/networks/addresses.ts';
import { senderOf } from '../webhooks/read-delivery.ts';
import { setActor } from './actors.ts';
import { type GivenCredentials, NOTHING_GIVEN } from './credentials.ts';
import type { Logins } from './logins.ts';
import type { DashboardServices } from './services.ts';
import type { AccessRecord, Door, Sender, WayIn } from './way-in.ts';

type DoorServices = Pick<DashboardServices, 'clock' | 'wait' | 'senderAddress'>;

export function createDoor(logins: Logins, record: AccessRecord, services: DoorServices): Door {
  const delayWrong = wrongAnswerDelays(services);
  return {
    logins,
    record,
    async attempt(request, given) {
      // Compared before any wait: right credentials are never delayed by others' wrong ones.
      const actor = logins.credentials.prove(given);
      if (actor !== undefined) return actor;
      const delayed = delayWrong(senderOf(request, services.senderAddress));
      // Not the given name: people type passwords into the wrong field.
      const account = given.user === '' ? 'token' : 'user';
      await record.wrongLogin(request, { statusCode: delayed === 'too many' ? 429 : 401, account });
      if (delayed === 'too many') return delayed;
      await delayed;
      return 'wrong';
    },
  };
}

/**
 * Makes an `onRequest` hook that accepts the right HTTP Basic login or bearer token, or, without either, the first
 * sender that a way in names; anything else gets 401. A request without credentials is only challenged, as browsers
 * need it.
 */
export function requireActor({ logins: { credentials }, attempt }: Door, ways: readonly WayIn[]) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const { authorization } = request.headers;
    if (authorization !== undefined) {
      const actor = await attempt(request, readGiven(authorization));
      if (actor === 'too many') throw tooManyLogins(reply);
      if (actor !== 'wrong') return setActor(request, actor);
    } else {
      const sender = await firstSender(request, ways);
      if (sender?.actor !== undefined) setActor(request, sender.actor);
      if (sender?.refusal !== undefined) throw sender.refusal;
      if (sender?.actor !== undefined) return undefined;
      const [page] = ways.flatMap((way) => way.pageFor?.(request) ?? []);
      if (page !== undefined) return reply.redirect(page, 303);
    }
    reply.header('www-authenticate', credentials.challenges);
    throw new HttpError('unauthorized', 'This needs the credentials of the dashboard');
  };
}

/** The first sender that comes in, or else the first that is refused. */
async function firstSender(request: FastifyRequest, ways: readonly WayIn[]): Promise<Sender | undefined> {
  let refused: Sender | undefined;
  for (const way of ways) {
    const sender = await way.whoSent(request);
    if (sender !== undefined && sender.refusal === undefined) return sender;
    refused ??= sender;
  }
  return refused;
}

export function tooManyLogins(reply: FastifyReply): HttpError {
  reply.header('retry-after', '2');
  return new HttpError('too_many_logins', 'Too many wrong logins came from this address; try again later');
}

function readGiven(authorization: string): GivenCredentials {
  const [, scheme = '', value = ''] = /^([A-Za-z]+) +(.*)$/.exec(authorization) ?? [];
  if (scheme.toLowerCase() === 'bearer') return { ...NOTHING_GIVEN, token: value.trim() };
  if (scheme.toLowerCase() !== 'basic') return NOTHING_GIVEN;
  const login = Buffer.from(value, 'base64').toString('utf8');
  const colon = login.indexOf(':');
  return colon === -1
    ? NOTHING_GIVEN
    : { ...NOTHING_GIVEN, user: login.slice(0, colon), password: login.slice(colon + 1) };
}

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 2_000;
/** After this time without a failure, an address starts over. */
const FORGET_AFTER_MS = 15 * 60_000;
/** Addresses with failures; the least recent are forgotten first, so that a flood of them costs no memory. */
const MAX_REMEMBERED = 10_000;
/** Waiting answers to one address; further wrong logins get an immediate answer to come back later. */
const MAX_WAITING = 16;

/**
 * Slows down the answers to wrong logins: 100 ms for the first of an address, twice that for each further one, two
 * seconds at most. Only answers wait, never requests, and there is no lock-out, because people share addresses. So this
 * keeps slow scripts from trying many passwords, but does not protect a password that can be guessed.
 */
export function wrongAnswerDelays({
  clock,
  wait,
}: Pick<DashboardServices, 'clock' | 'wait'>): (address: string) => Promise<void> | 'too many' {
  const failures = new LRUCache<string, { count: number; at: number }>({ max: MAX_REMEMBERED });
  const waiting = new Map<string, number>();
  return (address) => {
    // An IPv6 address counts as its /64.
    const group = addressGroup(address);
    const at = clock.monotonic();
    const last = failures.get(group);
    const count = last === undefined || at - last.at > FORGET_AFTER_MS ? 1 : last.count + 1;
    failures.set(group, { count, at });
    const before = waiting.get(group) ?? 0;
    if (before >= MAX_WAITING) return 'too many';
    waiting.set(group, before + 1);
    return wait(Math.min(FIRST_DELAY_MS * 2 ** (count - 1), MAX_DELAY_MS)).finally(() => {
      const others = (waiting.get(group) ?? 0) - 1;
      if (others > 0) waiting.set(group, others);
      else waiting.delete(group);
    });
  };
}
