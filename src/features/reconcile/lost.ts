import { reading, type SourceItem } from './source.ts';

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
