import { createHash, createHmac, scryptSync, timingSafeEqual } from 'node:crypto';
import { type Credential, type Credentials, listCredentials } from '../config/credentials.ts';
import type { Grant, GroupGrant, Scope } from '../config/tokens.ts';
import type { Person } from './sign-on.ts';

/** Who sent a request, and what that party may do. */
export interface Actor {
  readonly name: string;
  /** One or more: each allows its scopes with its flows. */
  readonly grants: readonly Grant[];
  /** The id of the credential that was proven, or of the person. */
  readonly credential?: string;
  /** Whom a proxy signed in. */
  readonly person?: Person;
  /** Of who logged in on the login page. */
  readonly session?: { readonly id: string; readonly lastsUntil: number; readonly ledgerEnd: number };
}

/** What a request says that it knows; absent parts are empty. */
export interface GivenCredentials {
  readonly user: string;
  readonly password: string;
  readonly token: string;
}

/** What a party may do with some flow or other. */
export function scopesOf({ grants }: Pick<Actor, 'grants'>): Scope[] {
  return [...new Set(grants.flatMap(({ scopes }) => scopes))];
}

export const NOTHING_GIVEN: GivenCredentials = { user: '', password: '', token: '' };

/** A credential in force. The same object for as long as it stays what it is. */
interface Holder {
  readonly actor: Actor;
  /** What only a process that has the credential can say of a text. */
  codeOf(text: string): Buffer;
}

/** The credentials of the dashboard as they are now: the file of tokens may be read again while the process runs. */
export interface CredentialsInForce {
  /** Whose they are. All are compared, in constant time. */
  prove(given: GivenCredentials): Actor | undefined;
  /** Somebody whom a proxy signed in; undefined for the name of a credential, under which the activity list has another. */
  person(person: Person): Actor | undefined;
  /** Those there are. A mark changes with the token, and is too short to find one by. */
  list(): readonly { readonly id: string; readonly mark: string }[];
  /** By the id of the credential. */
  holder(id: string): Holder | undefined;
  readonly challenges: readonly string[];
  /** Whether there is a name and a password, which browsers ask for by themselves. */
  readonly hasUser: boolean;
  /** Puts others in force: what they leave out, or change, lets nobody in any more. */
  replace(credentials: Credentials): void;
  /** Yields the function that ends it. */
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
    person({ name, groups: own }) {
      const taken = [...RESERVED_NAMES, ...holders.map(({ actor }) => actor.name)].map(readAs);
      if (taken.includes(readAs(name))) return undefined;
      const grants = groups.filter(({ group }) => own.includes(group)).map(({ scopes, flows }) => ({ scopes, flows }));
      return { name, grants, credential: `person ${name}`, person: { name, groups: own } };
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

/** Alike for names that a person takes for one. */
const readAs = (name: string) => name.normalize('NFKC').toLowerCase();

/** What the activity list calls those who proved nothing, and Sluice itself. */
const RESERVED_NAMES = ['anyone', 'unknown', 'sluice'];

function prepare({ id, name, scopes, flows, secret }: Credential): PreparedHolder {
  const isToken = 'token' in secret;
  const expected = isToken ? [digestOf(secret.token)] : [digestOf(secret.user), digestOf(secret.password)];
  let key: Buffer | undefined;
  return {
    actor: { name, grants: [{ scopes, flows }], credential: id },
    text: JSON.stringify([id, name, scopes, flows, secret]),
    // Of a password, which may be a word, nothing is kept.
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
