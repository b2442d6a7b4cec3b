import type { Json } from '../../model/json.ts';

/**
 * A publisher's own log: says which requests to make, and reads the answers. Pure: the caller brings time and network,
 * rejects answers other than 2xx, waits if the publisher says so, and limits pages and bytes. Times are milliseconds
 * since the Unix epoch.
 */
export interface Source {
  /** Deliveries sent this recently may still be on their way; 30 s if not given. */
  readonly graceMs?: number | undefined;
  /** Absent if the configured secret is itself the credential of every request. */
  readonly signIn?: SignIn | undefined;
  /** The first request of a round, for everything sent in the window; the newest may come first. */
  list(window: SentWindow): SourceRequest;
  /** Reads the answer to `list`, or to the `next` of a page. Throws `SourceError` if it is not what was asked for. */
  read(answer: SourceAnswer, window: SentWindow): SourcePage;
  /** The delivery as the publisher sent it, or would have. `detail` is the answer to the item's own request, if it has one. */
  sent(item: SourceItem, detail: SourceAnswer | undefined): SentDelivery;
}

/** Exchanges the secret for a token that all other requests use. */
interface SignIn {
  request(): SourceRequest;
  /** The headers for all other requests, and how long they are valid. */
  read(answer: SourceAnswer): { readonly headers: Readonly<Record<string, string>>; readonly lifeMs: number };
}

/** Both ends are included. */
export interface SentWindow {
  readonly since: number;
  readonly until: number;
}

export interface SourceRequest {
  readonly method: 'GET' | 'POST';
  /** Absolute; contains secrets only if the publisher accepts them nowhere else. */
  readonly url: string;
  /** Lower-case name to value. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** A 2xx answer with JSON. */
export interface SourceAnswer {
  readonly status: number;
  /** Lower-case name to value. */
  readonly headers: Readonly<Record<string, string>>;
  /** The exact text received, to reproduce the bytes that were signed. */
  readonly text: string;
  readonly json: Json;
}

export interface SourcePage {
  /** In any order; may include items outside of the window. */
  readonly items: readonly SourceItem[];
  /** Absent on the last page, and if all following pages are older than the window. */
  readonly next?: SourceRequest | undefined;
}

/** Something that the publisher sent at least once: each sending is one delivery of the same event. */
export interface SourceItem {
  /** Identifies the event; the same for all its sendings, so only one of them is fetched. */
  readonly id: string;
  readonly sentAt: number;
  /**
   * Headers of the original that are known without its contents, in lower case. They alone identify most accepted
   * deliveries, which then need no further request.
   */
  readonly headers: Readonly<Record<string, string>>;
  /** Why sending failed according to the publisher, in a few words; absent if it says nothing, or that it arrived. */
  readonly failure?: string | undefined;
  /** The parsed body, if the page has it; for identities that are read from the body. */
  readonly content?: Json | undefined;
  /** The body, if the page has it byte for byte. */
  readonly body?: Buffer | undefined;
  /** Why the delivery cannot be reconstructed, although the page has it. */
  readonly unreadable?: string | undefined;
  /** Requests the contents, if the page does not have them. */
  readonly detail?: SourceRequest | undefined;
}

export interface SentDelivery {
  /** All known headers of the original, in lower case, including content type and signature if there were any. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * The exact bytes that it may have had, likeliest first. The first body that the trigger's signature gate verifies is
   * taken, else the first of all.
   */
  readonly bodies: readonly [Buffer, ...Buffer[]];
}

/** Why an answer is unusable. */
export class SourceError extends Error {
  /** Set if the publisher asks to wait, as an API may do even with a 200. */
  readonly retryAfterMs: number | undefined;
  constructor(message: string, { retryAfterMs }: { readonly retryAfterMs?: number } = {}) {
    super(message);
    this.name = 'SourceError';
    this.retryAfterMs = retryAfterMs;
  }
}

/** Read and looked up without a pause: an answer of many mebibytes must not hold up deliveries or the store. */
export const MOST_ON_PAGE = 1000;

/** Throws before reading a page that has more entries than any publisher puts on one. */
export function refuseLongPage({ length }: { readonly length: number }): void {
  if (length > MOST_ON_PAGE)
    throw new SourceError(`a page has ${length} entries; at most ${MOST_ON_PAGE} are read, so ask for smaller pages`);
}

/** Calls a source. Errors from absurd answers, such as lists nested a million deep, are faults of the answer, too. */
export function reading<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof SourceError) throw error;
    throw new SourceError(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Sent deliveries that are unknown here, at most as many as one look fetches; oldest first, troubled ones last. */
export interface Lost {
  readonly items: readonly SourceItem[];
  /** When the first of the remaining ones was sent. */
  readonly leftFrom: number;
}

const MOST_FETCHED = 1000;
/** Bytes of contents that one look holds; after a long outage, the next look fetches the rest. */
const MOST_KEPT_BYTES = 16_777_216;

/** Pages may contain bodies: those of a long outage must not fill the memory. */
export function oldestOf(
  { items, leftFrom }: Lost,
  listed: readonly SourceItem[],
  { isNewestFirst, troubled }: { readonly isNewestFirst: boolean; readonly troubled: { has(id: string): boolean } },
): Lost {
  const some = listed.map(inBytes);
  // Logs give whole seconds. Within a second, the order of the log counts.
  const all = isNewestFirst ? [...some.toReversed(), ...items] : [...items, ...some];
  const isLast = ({ id }: SourceItem) => Number(troubled.has(id));
  const byId = new Map<string, SourceItem>();
  for (const item of all.sort((one, other) => isLast(one) - isLast(other) || one.sentAt - other.sentAt)) {
    if (!byId.has(item.id)) byId.set(item.id, item);
  }
  const unique = [...byId.values()];
  let bytes = 0;
  const isFull = ({ body }: SourceItem, place: number) => {
    bytes += body?.byteLength ?? 0;
    return place > 0 && (place >= MOST_FETCHED || bytes > MOST_KEPT_BYTES);
  };
  const end = unique.findIndex(isFull);
  if (end === -1) return { items: unique, leftFrom };
  const left = unique.slice(end).reduce((first, { sentAt }) => Math.min(first, sentAt), leftFrom);
  return { items: unique.slice(0, end), leftFrom: left };
}

/** Its names have been read already, so only the bytes of its contents are kept. */
function inBytes({ content, body, ...item }: SourceItem): SourceItem {
  if (content === undefined || body !== undefined) return { ...item, body };
  try {
    return { ...item, body: Buffer.from(reading(() => JSON.stringify(content))) };
  } catch (error) {
    return { ...item, unreadable: error instanceof Error ? error.message : String(error) };
  }
}
