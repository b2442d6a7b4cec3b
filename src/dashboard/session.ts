import { randomUUID, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Credentials } from '../config/credentials.ts';
import { MINUTE_MS, type ServiceClock } from '../model/clock.ts';
import { serially } from '../model/serially.ts';
import type { Store } from '../store/store.ts';
import { type ClientAddressReader, forwardedTo, senderOf } from '../webhooks/read-delivery.ts';
import { type Actor, type CredentialsInForce, credentialsInForce } from './credentials.ts';

/** Who may use the dashboard now: credentials, and the sessions of browsers that proved one of them. */
export interface Logins {
  readonly credentials: CredentialsInForce;
  readonly sessions: Sessions;
  /** Keeps which credentials are in force, so that one that is taken away does not bring its sessions back with it. */
  note(): Promise<void>;
}

/** Logins of browsers: a cookie that a page of ours sets, so that a token need not be typed into a header. */
interface Sessions {
  /** The value of a new session's cookie. */
  begin(actor: Actor): string;
  /** Who the session of that cookie belongs to, as long as neither it nor its credential has ended. */
  find(cookies: string | undefined, name: CookieName): Promise<Actor | undefined>;
  /** Ends it here and at every other process, for good. */
  end(session: NonNullable<Actor['session']>): Promise<void>;
  /** Whether an actor who was let in may go on. */
  holds(actor: Actor): Promise<boolean>;
  /**
   * Calls `leave` as soon as the actor's session is ended here, or its credential is taken away. Yields the function that
   * stops that. What other processes end is only seen by `holds`.
   */
  whenOver(actor: Actor, leave: () => void): () => void;
}

export const LIFETIME_SECONDS = 12 * 3600;
const LIFETIME_MS = LIFETIME_SECONDS * 1000;

/** By more than this the ledger's time of a process is never behind that of another. */
const LEDGER_MARGIN_MS = MINUTE_MS;

/** Under this prefix a browser keeps only what this very host set over TLS: no neighbour can put a session under it. */
type CookieName = 'sluice-session' | '__Host-sluice-session';

interface Reached {
  readonly publicUrl: string | undefined;
  readonly senderAddress: ClientAddressReader;
}

/** The name of the cookie: whether browsers reach us over TLS is told by the operator, or by a proxy of the operator's. */
export function cookieNameFor(request: Pick<IncomingMessage, 'socket' | 'headers'>, reached: Reached): CookieName {
  const { publicUrl, senderAddress } = reached;
  const isTrusted = senderAddress.isTrustedPeer(request.socket.remoteAddress ?? '');
  const client = senderOf(request, senderAddress);
  const told = isTrusted ? forwardedTo(client, request.headers)('x-forwarded-proto') : undefined;
  const isSecure = publicUrl?.toLowerCase().startsWith('https:') === true || told === 'https';
  return isSecure ? '__Host-sluice-session' : 'sluice-session';
}

export function createLogins(
  given: Credentials,
  services: {
    readonly store: Pick<Store, 'endSession' | 'isSessionEnded' | 'noteCredentials'>;
    readonly clock: Pick<ServiceClock, 'now' | 'ledger'>;
  },
): Logins {
  const credentials = credentialsInForce(given);
  const { store, clock } = services;
  // One after the other: what is taken away and comes back at once was away.
  const notes = serially();
  return {
    credentials,
    sessions: createSessions(credentials, services),
    note() {
      const listed = credentials.list();
      return notes.run(() => store.noteCredentials({ credentials: listed, now: clock.ledger() }));
    },
  };
}

/**
 * A cookie says which credential began the session, which session it is and until when, under a code that is keyed with
 * the credential. So a session needs no row: it survives a restart, is valid at every process with the same credentials, and
 * ends when the credential is taken away, for good: the store knows since when each is there, and the few sessions that were
 * ended before their time.
 *
 * It has two ends: by the time of the day, which goes on while the service is down, and by the ledger's, which no clock can
 * set. What is ended before its time is remembered by the latter, so that a clock that was set brings none of it back.
 */
function createSessions(
  credentials: CredentialsInForce,
  { store, clock }: Parameters<typeof createLogins>[1],
): Sessions {
  /** Who watches, with what let them in. */
  const watchers = new Set<{ actor: Actor; standing: unknown; leave: () => void }>();
  const holderOf = ({ credential }: Actor) => (credential === undefined ? undefined : credentials.holder(credential));
  /** What lets somebody in: another value once it changes, undefined once it is gone. */
  const standingOf = (actor: Actor): unknown => {
    if (actor.person === undefined) return holderOf(actor);
    const grants = credentials.person(actor.person)?.grants ?? [];
    return grants.length === 0 ? undefined : JSON.stringify(grants);
  };
  credentials.onReplaced(() => {
    for (const { actor, standing, leave } of [...watchers]) if (standingOf(actor) !== standing) leave();
  });

  const read = (value: string): Actor | undefined => {
    const [credential = '', id = '', until = '', ledgerUntil = '', code = ''] = value.split('.');
    const [lastsUntil, ledgerEnd] = [Number(until), Number(ledgerUntil)];
    const holder = credentials.holder(Buffer.from(credential, 'base64url').toString());
    const expected = holder?.codeOf(`${credential}.${id}.${until}.${ledgerUntil}`);
    const given = Buffer.from(code, 'base64url');
    if (holder === undefined || expected === undefined || given.length !== expected.length) return undefined;
    return timingSafeEqual(given, expected) ? { ...holder.actor, session: { id, lastsUntil, ledgerEnd } } : undefined;
  };
  const isEnded = async ({ session, credential = '' }: Actor) => {
    if (session === undefined) return false;
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
      // First here, so that nothing goes on for as long as the store takes.
      for (const { actor, leave } of [...watchers]) if (actor.session?.id === id) leave();
      await store.endSession({ id, lastsUntil: ledgerEnd, now: clock.ledger() - LEDGER_MARGIN_MS });
    },
    async holds(actor) {
      return standingOf(actor) !== undefined && !(await isEnded(actor));
    },
    whenOver(actor, leave) {
      const watcher = { actor, standing: standingOf(actor), leave };
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
  };
}
