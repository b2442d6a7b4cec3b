import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { HttpError } from '../errors.ts';
import type { Actor, GivenCredentials } from './credentials.ts';
import type { Logins } from './logins.ts';

/** Records logins, logouts and refusals: as a log event, a count and an entry of the activity list. */
export interface AccessRecord {
  /** Rejects while the store is away, so that no login goes unseen. */
  loggedIn(request: FastifyRequest, actor: Actor): Promise<void>;
  loggedOut(request: FastifyRequest, actor: Actor): Promise<void>;
  wrongLogin(request: FastifyRequest, answer: { statusCode: 401 | 429; account: string }): Promise<void>;
  /** Records an error if it denied access. */
  denied(request: FastifyRequest, error: unknown): Promise<void>;
}

/** Without a part that records access, the same parties come in, and nothing tells of it. */
export const NO_RECORD: AccessRecord = {
  async loggedIn() {},
  async loggedOut() {},
  async wrongLogin() {},
  async denied() {},
};

/** What the kernel does for every way in. */
export interface Door {
  readonly logins: Logins;
  readonly record: AccessRecord;
  /** Identifies the sender. The answer to wrong credentials waits, longer each time. */
  attempt(request: FastifyRequest, given: GivenCredentials): Promise<Actor | 'wrong' | 'too many'>;
}

/** The sender that a way names. With a refusal, it comes in only if a later way names another one. */
export type Sender =
  | { readonly actor: Actor; readonly refusal?: undefined }
  | { readonly actor?: Actor | undefined; readonly refusal: HttpError };

/**
 * A way to come in for requests without an `authorization` header; the kernel itself checks that header. What no way
 * names gets 401.
 */
export interface WayIn {
  whoSent(request: FastifyRequest): Promise<Sender | undefined>;
  /** The page on which a browser can log in, instead of a 401. */
  pageFor?(request: FastifyRequest): string | undefined;
  /** Adds routes that need no login. Requests from other sites' pages are refused before them. */
  addRoutes?(app: FastifyInstance): void;
}
