import { randomUUID, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Actor } from '../../dashboard/credentials.ts';
import type { Logins } from '../../dashboard/logins.ts';
import { MINUTE_MS, type ServiceClock } from '../../model/clock.ts';
import type { Members } from '../../store/part.ts';
import { type ClientAddressReader, forwardedTo, senderOf } from '../../webhooks/read-delivery.ts';
import type { loginStore } from './store.ts';

/** Logins of browsers: our page sets a cookie, so that people need not type a token into a header. */
export interface Sessions {
  /** The cookie value of a new session. */
  begin(actor: Actor): string;
  /** The owner of the cookie's session, until the session or its credential has ended. */
  find(cookies: string | undefined, name: CookieName): Promise<SessionActor | undefined>;
  /** Ends it here and at every other process, for good. */
  end(session: Session): Promise<void>;
}

interface Session {
  readonly id: string;
  readonly lastsUntil: number;
  readonly ledgerEnd: number;
}

interface SessionActor extends Actor {
  readonly session: Session;
}

export const LIFETIME_SECONDS = 12 * 3600;
const LIFETIME_MS = LIFETIME_SECONDS * 1000;

/** A process' ledger time is never behind another's by more than this. */
const LEDGER_MARGIN_MS = MINUTE_MS;

/** Browsers only accept this prefix from this very host over TLS: no neighbouring host can set a session with it. */
type CookieName = 'sluice-session' | '__Host-sluice-session';

interface Reached {
  readonly publicUrl: string | undefined;
  readonly senderAddress: ClientAddressReader;
}

/** The cookie's name: the operator, or the operator's proxy, tells whether browsers reach us over TLS. */
export function cookieNameFor(request: Pick<IncomingMessage, 'socket' | 'headers'>, reached: Reached): CookieName {
  const { publicUrl, senderAddress } = reached;
  const isTrusted = senderAddress.isTrustedPeer(request.socket.remoteAddress ?? '');
  const client = senderOf(request, senderAddress);
  const told = isTrusted ? forwardedTo(client, request.headers)('x-forwarded-proto') : undefined;
  const isSecure = publicUrl?.toLowerCase().startsWith('https:') === true || told === 'https';
  return isSecure ? '__Host-sluice-session' : 'sluice-session';
}

interface SessionServices {
  readonly store: Members<typeof loginStore>;
  readonly clock: Pick<ServiceClock, 'now' | 'ledger'>;
}

/**
 * A cookie names the credential that began the session, the session and its end, with a code that is keyed with the
 * credential. So a session needs no row: it survives a restart, is valid at every process with the same credentials,
 * and ends for good when the credential is removed: the store knows since when each credential exists, and the few
 * sessions that were ended early.
 *
 * It has two ends: one by the time of day, which passes while the service is down, and one by the ledger, which no
 * clock can set. Early ends are remembered by the latter, so that setting a clock brings none of the sessions back.
 */
export function createSessions(
  { credentials, endSession }: Pick<Logins, 'credentials' | 'endSession'>,
  { store, clock }: SessionServices,
): Sessions {
  const holderOf = ({ credential }: Actor) => (credential === undefined ? undefined : credentials.holder(credential));

  const read = (value: string): SessionActor | undefined => {
    const [credential = '', id = '', until = '', ledgerUntil = '', code = ''] = value.split('.');
    const [lastsUntil, ledgerEnd] = [Number(until), Number(ledgerUntil)];
    const holder = credentials.holder(Buffer.from(credential, 'base64url').toString());
    const expected = holder?.codeOf(`${credential}.${id}.${until}.${ledgerUntil}`);
    const given = Buffer.from(code, 'base64url');
    if (holder === undefined || expected === undefined || given.length !== expected.length) return undefined;
    if (!timingSafeEqual(given, expected)) return undefined;
    const actor = { ...holder.actor, session: { id, lastsUntil, ledgerEnd } };
    return { ...actor, isEnded: () => isEnded(actor) };
  };
  const isEnded = async ({ session, credential = '' }: SessionActor) => {
    const { id, lastsUntil, ledgerEnd } = session;
    if (!(lastsUntil > clock.now() && ledgerEnd > clock.ledger())) return true;
    return store.isSessionEnded({ id, credential, begunAt: ledgerEnd - LIFETIME_MS });
  };

  return {
    begin(actor) {
      const holder = holderOf(actor);
      if (holder === undefined) throw new Error(`${actor.name} has proven no credential`);
      const credential = Buffer.from(actor.credential ?? '').toString('base64url');
      const text = `${credential}.${randomUUID()}.${clock.now() + LIFETIME_MS}.${clock.ledger() + LIFETIME_MS}`;
      return `${text}.${holder.codeOf(text).toString('base64url')}`;
    },
    async find(cookies = '', name) {
      const [, value = ''] = new RegExp(`(?:^|;\\s*)${name}=([\\w.-]{1,400})(?:;|$)`).exec(cookies) ?? [];
      const actor = read(value);
      return actor === undefined || (await isEnded(actor)) ? undefined : actor;
    },
    async end({ id, ledgerEnd }) {
      // First here, so that nothing continues while the store works.
      endSession(id);
      await store.endSession({ id, lastsUntil: ledgerEnd, now: clock.ledger() - LEDGER_MARGIN_MS });
    },
  };
}
