import type { Json } from '../../model/json.ts';

/**
 * What a publisher's own log holds: it says which requests to make and reads the answers. Pure: whoever asks brings time and
 * network, refuses what is no 2xx, waits where the publisher says so, and bounds pages and bytes. Times are milliseconds since
 * the Unix epoch.
 */
export interface Source {
  /** What was sent so short a time ago may still be on its way; 30 s where not given. */
  readonly graceMs?: number | undefined;
  /** Absent where the configured secret is itself the credential of every request. */
  readonly signIn?: SignIn | undefined;
  /** The first request of a round, for all that was sent in the window; the newest may come first. */
  list(window: SentWindow): SourceRequest;
  /** Reads the answer to `list`, or to the `next` of a page. Throws `SourceError` where it is not what was asked for. */
  read(answer: SourceAnswer, window: SentWindow): SourcePage;
  /** The delivery as the publisher sent it, or would have. `detail` is the answer to the item's own request, if it has one. */
  sent(item: SourceItem, detail: SourceAnswer | undefined): SentDelivery;
}

/** Gets a token for all other requests, where the secret is only exchanged for one. */
interface SignIn {
  request(): SourceRequest;
  /** The headers that every other request then carries, and for how long they may be used. */
  read(answer: SourceAnswer): { readonly headers: Readonly<Record<string, string>>; readonly lifeMs: number };
}

/** Both ends belong to it. */
export interface SentWindow {
  readonly since: number;
  readonly until: number;
}

export interface SourceRequest {
  readonly method: 'GET' | 'POST';
  /** Absolute; secrets only where the publisher takes them nowhere else. */
  readonly url: string;
  /** Lower-case name to value. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** A 2xx with JSON in it. */
export interface SourceAnswer {
  readonly status: number;
  /** Lower-case name to value. */
  readonly headers: Readonly<Record<string, string>>;
  /** Exactly as it came, to prove the bytes that were signed. */
  readonly text: string;
  readonly json: Json;
}

export interface SourcePage {
  /** In any order; what lies outside the window may be among them. */
  readonly items: readonly SourceItem[];
  /** Absent on the last page, and where all that follows is older than the window. */
  readonly next?: SourceRequest | undefined;
}

/** Something that the publisher sent once or several times: each sending is one delivery of the same event. */
export interface SourceItem {
  /** Names what was sent: all sendings of it have the same, so that one of them is fetched. */
  readonly id: string;
  readonly sentAt: number;
  /**
   * Headers of the original that are known without its contents, lower-case: from them alone most deliveries are known to be
   * accepted, so that nothing more is fetched of them.
   */
  readonly headers: Readonly<Record<string, string>>;
  /** What the publisher says became of sending it, in a few words; absent where it says nothing, or that it arrived. */
  readonly failure?: string | undefined;
  /** The body as parsed, where the page holds it; for identities that are read from the body. */
  readonly content?: Json | undefined;
  /** The body itself, where the page holds it byte for byte. */
  readonly body?: Buffer | undefined;
  /** Why what was sent cannot be told, although its page holds it. */
  readonly unreadable?: string | undefined;
  /** Asks for the contents, where the page does not have them. */
  readonly detail?: SourceRequest | undefined;
}

export interface SentDelivery {
  /** All that are known of the original, lower-case; a content type and a signature among them where there were any. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * The exact bytes that it may have had, the likeliest first: the first that the trigger's signature gate verifies are taken,
   * else the first of all.
   */
  readonly bodies: readonly [Buffer, ...Buffer[]];
}

/** Why an answer cannot be used. */
export class SourceError extends Error {
  /** Set where the publisher asks to wait, as an API may do with a 200. */
  readonly retryAfterMs: number | undefined;
  constructor(message: string, { retryAfterMs }: { readonly retryAfterMs?: number } = {}) {
    super(message);
    this.name = 'SourceError';
    this.retryAfterMs = retryAfterMs;
  }
}

/** Each is read and looked up without a pause: an answer of many mebibytes must not hold up deliveries, nor the store. */
export const MOST_ON_PAGE = 1000;

/** Throws before anything of a page is read that has more entries than any publisher lists on one. */
export function refuseLongPage({ length }: { readonly length: number }): void {
  if (length > MOST_ON_PAGE)
    throw new SourceError(`a page has ${length} entries; at most ${MOST_ON_PAGE} are read, so ask for smaller pages`);
}

/** Calls a source. What no publisher answers, such as lists within lists a million deep, is a fault of the answer too. */
export function reading<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof SourceError) throw error;
    throw new SourceError(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}
