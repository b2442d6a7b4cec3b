import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { SCOPES } from '../config/tokens.ts';
import { HttpError } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import { addressGroup } from '../webhooks/networks/addresses.ts';
import { senderOf } from '../webhooks/read-delivery.ts';
import { type Actor, setActor } from './activity.ts';
import type { DashboardServices } from './services.ts';
import { type Credentials, type Sessions, tokensOf } from './session.ts';

/** The credentials of a request; absent parts are empty. */
interface Claim {
  readonly user: string;
  readonly password: string;
  readonly token: string;
}

export const NO_CLAIM: Claim = { user: '', password: '', token: '' };

/** Characters of a token that no rate of guesses finds; shorter ones wait for their turn like passwords. */
const UNGUESSABLE_LENGTH = 16;

/** Checks the credentials of requests. */
export interface Authentication {
  /**
   * An `onRequest` hook that lets a request pass with the right HTTP Basic login, bearer token or session and else answers
   * 401. A request without credentials is only challenged, as browsers need it.
   */
  require(request: FastifyRequest, reply: FastifyReply): Promise<unknown>;
  /** Who it is; wrong claims wait, longer each time. */
  attempt(request: FastifyRequest, claim: Claim): Promise<Actor | 'wrong' | 'too many'>;
}

type AuthenticationServices = Pick<DashboardServices, 'clock' | 'wait' | 'senderAddress'>;

export function createAuthentication(
  credentials: Credentials,
  { sessions, ...services }: AuthenticationServices & { readonly sessions: Sessions },
): Authentication {
  const actorOf = credentialCheck(credentials);
  const challenges = challengesOf(credentials);
  const delays = loginDelays(services);

  const attempt: Authentication['attempt'] = async (request, claim) => {
    // Wrong claims of others at this address must not lock out who has the token.
    const known = claim.token.length >= UNGUESSABLE_LENGTH ? actorOf(claim) : undefined;
    if (known !== undefined) return known;
    const account = claim.user === '' ? 'token' : `user ${claim.user}`;
    const login = { address: senderOf(request, services.senderAddress), account };
    let actor: Actor | undefined;
    const outcome = await delays.attempt(login, () => {
      actor = actorOf(claim);
      return actor !== undefined;
    });
    return outcome === 'too many' ? outcome : (actor ?? 'wrong');
  };

  return {
    attempt,
    async require(request, reply) {
      const { authorization, cookie } = request.headers;
      if (authorization !== undefined) {
        const actor = await attempt(request, readClaim(authorization));
        if (actor === 'too many') throw tooManyLogins(reply);
        if (actor !== 'wrong') return setActor(request, actor);
      } else {
        const actor = sessions.find(cookie);
        if (actor !== undefined) return setActor(request, { ...actor, hasSession: true });
        // Where a name and password are set, browsers ask for them by themselves.
        if (credentials.basic === undefined && request.headers['sec-fetch-mode'] === 'navigate') {
          return reply.redirect(`/flows/login?next=${encodeURIComponent(request.url)}`, 303);
        }
      }
      reply.header('www-authenticate', challenges);
      throw new HttpError('unauthorized', 'This needs the credentials of the dashboard');
    },
  };
}

export function tooManyLogins(reply: FastifyReply): HttpError {
  reply.header('retry-after', '2');
  return new HttpError('too_many_logins', 'Too many wrong logins came from this address; try again later');
}

/**
 * Compares a claim with the credentials in constant time: digests of equal length, all compared each time. Credentials
 * that are not configured are random bytes, which no request can match. Yields the actor.
 */
function credentialCheck(credentials: Credentials): (claim: Claim) => Actor | undefined {
  const { basic } = credentials;
  const user = { name: basic?.user ?? '', scopes: SCOPES };
  const expected = { user: digestOf(basic?.user), password: digestOf(basic?.password) };
  const byToken = tokensOf(credentials).map(({ token, ...actor }) => ({ actor, digest: digestOf(token) }));
  return (claim) => {
    const isUser = timingSafeEqual(digestOf(claim.user), expected.user);
    const isPassword = timingSafeEqual(digestOf(claim.password), expected.password);
    const digest = digestOf(claim.token);
    const found = byToken.filter((known) => timingSafeEqual(digest, known.digest));
    return isUser && isPassword ? user : found[0]?.actor;
  };
}

function digestOf(text: string | undefined): Buffer {
  return text === undefined ? randomBytes(32) : createHash('sha256').update(text).digest();
}

function readClaim(authorization: string): Claim {
  const [, scheme = '', value = ''] = /^([A-Za-z]+) +(.*)$/.exec(authorization) ?? [];
  if (scheme.toLowerCase() === 'bearer') return { ...NO_CLAIM, token: value.trim() };
  if (scheme.toLowerCase() !== 'basic') return NO_CLAIM;
  const login = Buffer.from(value, 'base64').toString('utf8');
  const colon = login.indexOf(':');
  return colon === -1 ? NO_CLAIM : { ...NO_CLAIM, user: login.slice(0, colon), password: login.slice(colon + 1) };
}

function challengesOf(credentials: Credentials): string[] {
  return [
    ...(credentials.basic === undefined ? [] : ['Basic realm="Sluice", charset="UTF-8"']),
    ...(tokensOf(credentials).length === 0 ? [] : ['Bearer realm="Sluice"']),
  ];
}

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 2_000;
/** After so long without a failure an address starts over. */
const FORGET_AFTER_MS = 15 * 60_000;
/** Remembered failures; the least recent are forgotten first, so that a flood of addresses or names costs no memory. */
const MAX_REMEMBERED = 10_000;
/** Failures of an address, whatever the accounts, before it is slowed down as a whole: many people may share it. */
const FREE_FAILURES_OF_ADDRESS = 20;
/** Logins of one address that wait for their turn; further ones are told to come back. */
const MAX_WAITING = 16;
/** How often one login waits, while others of its address fail, before it is told to come back. */
const MAX_TURNS = 10;

interface Login {
  /** An IPv6 address counts as its /64. */
  readonly address: string;
  /** The name of HTTP Basic, or that it is a token. */
  readonly account: string;
}

interface LoginDelays {
  /**
   * Compares a claim when it is its turn: after a wrong one no other of that address and account is compared for a
   * while, however many come at once.
   */
  attempt(login: Login, isRight: () => boolean): Promise<'right' | 'wrong' | 'too many'>;
}

interface Failures {
  count: number;
  /** Monotonic milliseconds of the last one. */
  at: number;
}

/**
 * Slows down guesses: 100 ms after the first failure, twice that after each further one, two seconds at most, for the
 * address and account and, after twenty, for the address. There is no lock-out, because people share addresses.
 */
export function loginDelays({ clock, wait }: { clock: Clock; wait: (ms: number) => Promise<void> }): LoginDelays {
  const failures = new LRUCache<string, Failures>({ max: MAX_REMEMBERED });
  const waiting = new Map<string, number>();

  const delayLeft = (key: string, freeFailures: number): number => {
    const last = failures.get(key);
    if (last === undefined || last.count <= freeFailures) return 0;
    const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (last.count - freeFailures - 1), MAX_DELAY_MS);
    return last.at + delayMs - clock.monotonic();
  };
  const fail = (key: string) => {
    const at = clock.monotonic();
    const last = failures.get(key);
    const count = last === undefined || at - last.at > FORGET_AFTER_MS ? 1 : last.count + 1;
    failures.set(key, { count, at });
  };
  const waitFor = async (group: string, ms: number) => {
    waiting.set(group, (waiting.get(group) ?? 0) + 1);
    await wait(ms);
    const others = (waiting.get(group) ?? 0) - 1;
    if (others > 0) waiting.set(group, others);
    else waiting.delete(group);
  };

  return {
    async attempt({ address, account }, isRight) {
      const group = addressGroup(address);
      const ofAddress = `address ${group}`;
      const ofAccount = `account ${group} ${account.slice(0, 64)}`;
      for (let turn = 0; turn <= MAX_TURNS; turn += 1) {
        const ms = Math.max(delayLeft(ofAccount, 0), delayLeft(ofAddress, FREE_FAILURES_OF_ADDRESS));
        if (ms <= 0) {
          // No await between reading the delays and counting the failure: a second guess would slip in.
          if (isRight()) {
            // The address stays counted: a guesser who shares it must not get faster because others log in.
            failures.delete(ofAccount);
            return 'right';
          }
          fail(ofAccount);
          fail(ofAddress);
          return 'wrong';
        }
        if ((waiting.get(group) ?? 0) >= MAX_WAITING) return 'too many';
        await waitFor(group, ms);
      }
      return 'too many';
    },
  };
}
