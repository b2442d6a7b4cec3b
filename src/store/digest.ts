import { hash } from 'node:crypto';
import type { DigestCover } from '../model/delivery.ts';
import type { Json } from '../model/json.ts';
import type { TriggerName } from '../model/trigger-name.ts';
import type { FlowDeploy, NonceClaim } from './store.ts';

/**
 * Names texts from outside by 128 bits of SHA-256, in the form of a UUID, so that texts of any length fit into an
 * index. The length precedes each text, so that different lists never run together into one. Taken over UTF-16, since
 * UTF-8 would make one text of several that are not well-formed.
 */
export function digestOf(...texts: readonly string[]): string {
  const hex = hash('sha256', Buffer.from(texts.map((text) => `${text.length}:${text}`).join(''), 'utf16le'));
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;
}

/** An unverified nonce has names of its own, so that it never takes the place of a verified one. */
const scopeOf = ({ flowId, triggerKey }: TriggerName, isTrusted: boolean) => [
  flowId,
  triggerKey,
  isTrusted ? 'verified' : 'unverified',
];

/** Names a nonce by its header and value, which identify a delivery while the trigger names this header. */
export function nonceDigest(
  trigger: TriggerName,
  { header, value, isTrusted }: Pick<NonceClaim, 'header' | 'value' | 'isTrusted'>,
): string {
  return digestOf(...scopeOf(trigger, isTrusted), header, value);
}

/** Names a nonce from a header by its digest too, and another one by its body under the rule of its digest. */
export function nonceAlias(
  trigger: TriggerName,
  { header, digest, isTrusted, covers }: Pick<NonceClaim, 'header' | 'digest' | 'isTrusted' | 'covers'>,
): string | null {
  const scope = scopeOf(trigger, isTrusted);
  if (header !== '') return digestOf(...scope, header, 'signed bytes', digest);
  return covers === undefined ? null : digestOf(...scope, markOf(covers.rule), 'body', covers.bodySha256);
}

const MARK = ':';

/** Stands in the list of a trigger's nonce headers for a rule of its digests; no header has such a name. */
export const markOf = (rule: DigestCover['rule']): string => `${MARK}${rule}`;

/** The rule of a mark; undefined for a header. */
export const ruleOfMark = (header: string): string | undefined =>
  header.startsWith(MARK) ? header.slice(MARK.length) : undefined;

/** Names an event of a trigger. */
export function eventDigest({ flowId, triggerKey }: TriggerName, id: string): string {
  return digestOf(flowId, triggerKey, 'event', id);
}

/** Names a lane, whose runs run one at a time: runs of a flow with the same key, verified or not, or without a key. */
export function laneDigest(flowId: string, { key, isTrusted }: { key: string | null; isTrusted: boolean }): string {
  return digestOf(flowId, 'order', isTrusted ? 'verified' : 'unverified', ...(key === null ? [] : [key]));
}

/** Names a manifest by its content without its name, whatever the order of its keys. */
export function manifestDigest(snapshot: FlowDeploy['snapshot']): string {
  const { name, ...unnamed } = snapshot as Readonly<Record<string, Json>>;
  return digestOf(JSON.stringify(unnamed, sorted));
}

/** A replacer that sorts keys. Makes lists of pairs, since objects put keys that are numbers in their own order. */
function sorted(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || JSON.isRawJSON(value)) return value;
  return Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
}
