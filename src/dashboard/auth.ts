import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../errors.ts';
import { loginDelays } from './login-delays.ts';
import type { DashboardAccess, DashboardServices } from './services.ts';

type Credentials = Extract<DashboardAccess, { kind: 'credentials' }>;

/** What a request claims to be; the parts that it does not claim are empty. */
interface Claim {
  readonly user: string;
  readonly password: string;
  readonly token: string;
}

const NO_CLAIM: Claim = { user: '', password: '', token: '' };

/**
 * An `onRequest` hook that lets a request pass with the right HTTP Basic login or bearer token and else answers 401.
 * A request without any is only challenged, as browsers need it; one that follows a wrong one waits, longer each time.
 */
export function requireCredentials(
  credentials: Credentials,
  services: Pick<DashboardServices, 'clock' | 'wait' | 'senderAddress'>,
) {
  const isRight = credentialCheck(credentials);
  const challenges = challengesOf(credentials);
  const delays = loginDelays(services);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { authorization } = request.headers;
    if (authorization !== undefined) {
      const claim = readClaim(authorization);
      // Wrong claims of others at this address must not lock out who has the token: no rate of guesses finds one so long.
      if (claim.token.length >= UNGUESSABLE_LENGTH && isRight(claim)) return;
      const account = claim.user === '' ? 'token' : `user ${claim.user}`;
      const login = { address: addressOf(request, services), account };
      const outcome = await delays.attempt(login, () => isRight(claim));
      if (outcome === 'right') return;
      if (outcome === 'too many') {
        reply.header('retry-after', '2');
        throw new HttpError(429, 'Too many wrong logins came from this address; try again later', 'too_many_logins');
      }
    }
    reply.header('www-authenticate', challenges);
    throw new HttpError(401, 'This needs the credentials of the dashboard', 'unauthorized');
  };
}

/** Characters of a token that is not to be guessed; shorter ones wait for their turn like passwords. */
const UNGUESSABLE_LENGTH = 16;

function addressOf(request: FastifyRequest, { senderAddress }: Pick<DashboardServices, 'senderAddress'>): string {
  const forwardedFor = [request.headers['x-forwarded-for']].flat().join(',');
  return senderAddress.read(request.socket.remoteAddress ?? '', forwardedFor);
}

/**
 * Compares a claim with the credentials in a time that tells nothing: digests of equal length, each of them compared,
 * whatever the others gave. What is not configured is compared with random bytes, which nobody can send.
 */
function credentialCheck({ basic, token }: Credentials): (claim: Claim) => boolean {
  const expected = { user: digestOf(basic?.user), password: digestOf(basic?.password), token: digestOf(token) };
  return (claim) => {
    const isUser = timingSafeEqual(digestOf(claim.user), expected.user);
    const isPassword = timingSafeEqual(digestOf(claim.password), expected.password);
    const isToken = timingSafeEqual(digestOf(claim.token), expected.token);
    return (isUser && isPassword) || isToken;
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

function challengesOf({ basic, token }: Credentials): string[] {
  return [
    ...(basic === undefined ? [] : ['Basic realm="Sluice", charset="UTF-8"']),
    ...(token === undefined ? [] : ['Bearer realm="Sluice"']),
  ];
}
