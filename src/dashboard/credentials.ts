import { createHash, createHmac, scryptSync, timingSafeEqual } from 'node:crypto';
import { type Credential, type Credentials, listCredentials } from '../config/credentials.ts';
import type { Grant, GroupGrant, Scope } from '../config/tokens.ts';

/** The sender of a request, and its permissions. */
export interface Actor {
  readonly name: string;
  /** One or more: each allows its scopes for its flows. */
  readonly grants: readonly Grant[];
  /** The id of the proven credential, or of the person. */
  readonly credential?: string;
  /** Set after a login on the login page. */
  readonly session?: { readonly id: string };
  /** The state that gives it access without a credential: another value once it changes, undefined once it is gone. */
  readonly standing?: () => unknown;
  /** Whether it may not continue, although what admits it is still there. */
  readonly isEnded?: () => Promise<boolean>;
}

/** The credentials in a request; absent parts are empty. */
export interface GivenCredentials {
  readonly user: string;
  readonly password: string;
  readonly token: string;
}

/** All scopes that a party has for any flow. */
export function scopesOf({ grants }: Pick<Actor, 'grants'>): Scope[] {
  return [...new Set(grants.flatMap(({ scopes }) => scopes))];
}

export const NOTHING_GIVEN: GivenCredentials = { user: '', password: '', token: '' };

/** A credential in force. The same object until it changes. */
interface Holder {
  readonly actor: Actor;
  /** A code of a text that only a process with the credential can compute. */
  codeOf(text: string): Buffer;
}

/** The current credentials of the dashboard: the tokens file can be read again while the process runs. */
export interface CredentialsInForce {
  /** The owner of the credentials. Compares all, in constant time. */
  prove(given: GivenCredentials): Actor | undefined;
  /** What members of these groups may do. */
  grantsOf(groups: readonly string[]): readonly Grant[];
  /** Whether the activity list shows a credential, a party without proof or Sluice itself under this name. */
  isTaken(name: string): boolean;
  /** All credentials. A mark changes with the token, and is too short to find a token by it. */
  list(): readonly { readonly id: string; readonly mark: string }[];
  /** By the id of the credential. */
  holder(id: string): Holder | undefined;
  readonly challenges: readonly string[];
  /** Whether there is a name and a password, which browsers ask for by themselves. */
  readonly hasUser: boolean;
  /** Replaces the credentials: removed or changed ones no longer let anyone in. */
  replace(credentials: Credentials): void;
  /** Yields the function that unsubscribes. */
  onReplaced(listener: () => void): () => void;
}

interface PreparedHolder extends Holder {
  readonly text: string;
  readonly mark: string;
  isProvenBy(digests: Digests): boolean;
}

interface Digests {
  readonly user: Buffer;
  readonly password: Buffer;
  readonly token: Buffer;
}

export function credentialsInForce(first: Credentials): CredentialsInForce {
  let holders: readonly PreparedHolder[] = listCredentials(first).map(prepare);
  let groups: readonly GroupGrant[] = first.groups ?? [];
  const listeners = new Set<() => void>();
  return {
    prove({ user, password, token }) {
      const digests = { user: digestOf(user), password: digestOf(password), token: digestOf(token) };
      return holders.filter((holder) => holder.isProvenBy(digests))[0]?.actor;
    },
    grantsOf: (own) =>
      groups.filter(({ group }) => own.includes(group)).map(({ scopes, flows }) => ({ scopes, flows })),
    isTaken(name) {
      const taken = [...RESERVED_NAMES, ...holders.map(({ actor }) => actor.name)].map(readAs);
      return taken.includes(readAs(name));
    },
    list: () => holders.map(({ actor, mark }) => ({ id: actor.credential ?? '', mark })),
    holder: (id) => holders.find(({ actor }) => actor.credential === id),
    get challenges() {
      const hasToken = holders.some(({ actor }) => actor.credential !== 'user');
      return [
        ...(this.hasUser ? ['Basic realm="Sluice", charset="UTF-8"'] : []),
        ...(hasToken ? ['Bearer realm="Sluice"'] : []),
      ];
    },
    get hasUser() {
      return holders.some(({ actor }) => actor.credential === 'user');
    },
    replace(credentials) {
      const next = listCredentials(credentials).map(prepare);
      holders = next.map((holder) => holders.find(({ text }) => text === holder.text) ?? holder);
      groups = credentials.groups ?? [];
      for (const listener of listeners) listener();
    },
    onReplaced(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** Slow on purpose: a stolen cookie must not help to guess a password. Once for each credential and process. */
const keyOf = (secret: string) => scryptSync(secret, 'sluice session', 32);

const MARK_DIGITS = 8;

/** Equal for names that people would confuse. */
const readAs = (name: string) => name.normalize('NFKC').toLowerCase();

/** Names in the activity list for parties without proof, and for Sluice itself. */
const RESERVED_NAMES = ['anyone', 'unknown', 'sluice'];

function prepare({ id, name, scopes, flows, secret }: Credential): PreparedHolder {
  const isToken = 'token' in secret;
  const expected = isToken ? [digestOf(secret.token)] : [digestOf(secret.user), digestOf(secret.password)];
  let key: Buffer | undefined;
  return {
    actor: { name, grants: [{ scopes, flows }], credential: id },
    text: JSON.stringify([id, name, scopes, flows, secret]),
    // Not for a password, which may be a word.
    mark: isToken ? digestOf(secret.token).toString('hex').slice(0, MARK_DIGITS) : '',
    isProvenBy({ user, password, token }) {
      const given = isToken ? [token] : [user, password];
      return given.map((digest, at) => timingSafeEqual(digest, expected[at] ?? Buffer.alloc(32))).every(Boolean);
    },
    codeOf(text) {
      key ??= keyOf(isToken ? secret.token : `${secret.user}:${secret.password}`);
      return createHmac('sha256', key).update(text).digest();
    },
  };
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
