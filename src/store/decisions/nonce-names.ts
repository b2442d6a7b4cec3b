import { DAY_MS } from '../../model/clock.ts';
import { sameTrigger, type TriggerName } from '../../model/trigger-name.ts';
import { eventDigest, markOf, nonceAlias, nonceDigest, ruleOfMark } from '../digest.ts';
import type { NonceClaim } from '../store.ts';
import type { Decision } from './decision.ts';
import { type Port, Rows, sql } from './port.ts';

/** A trigger under which deliveries of a trigger may have been accepted; in lists the trigger itself comes first. */
export interface TriggerKey extends TriggerName {
  /** The newest nonce that counts; null if all do. */
  readonly lastSeq: number | null;
  /** Names stored before this instant count; null if all do. */
  readonly reusedAt: number | null;
  readonly headers: readonly NamedHeader[];
}

/** A header whose value named deliveries; '' if none did. With a colon, the rule of the digests. */
interface NamedHeader {
  readonly header: string;
  /** No nonce accepted under it lives longer. */
  readonly until: number;
}

/**
 * An accepted delivery has the value of the nonce header as its name, if one is configured, and always the digest of
 * what is signed, or of the body. It has one row. While the trigger names the same header, only the value distinguishes
 * deliveries; once it names another header, or none, the digest does, and once digests cover something else, the body:
 * so no deploy makes a known delivery new.
 */
export interface NonceName {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly lastSeq: number | null;
  readonly isTrusted: boolean;
  readonly header: string;
  /** Null if the row is found by its alias. */
  readonly nonce: string | null;
  /** The digest of the row, or else its alias. */
  readonly digest: string;
  readonly until: number;
}

/** The digest of a stored nonce. */
export function digestOfNonceRow(row: Readonly<Record<string, unknown>>): string {
  const trigger = { flowId: String(row.flow_id), triggerKey: String(row.trigger_key) };
  return nonceDigest(trigger, {
    header: String(row.header),
    value: String(row.nonce),
    isTrusted: row.is_verified === true,
  });
}

/** The digest of a stored event. */
export function digestOfEventRow(row: Readonly<Record<string, unknown>>): string {
  return eventDigest({ flowId: String(row.flow_id), triggerKey: String(row.trigger_key) }, String(row.event_id));
}

export interface NonceCall extends TriggerName {
  readonly nonce: NonceClaim | undefined;
}

/** The other names under which a delivery may have been accepted: nearly always none. */
export function otherNames({ nonce }: NonceCall, keys: readonly TriggerKey[]): NonceName[] {
  if (nonce === undefined || !nonce.isAsked) return [];
  const names: NonceName[] = [];
  for (const [place, { flowId, triggerKey, lastSeq, headers }] of keys.entries()) {
    const trigger = { flowId, triggerKey };
    for (const isTrusted of nonce.isTrusted ? [true] : [false, true]) {
      const of = { ...trigger, lastSeq, isTrusted, until: Number.MAX_SAFE_INTEGER };
      if (place > 0 || isTrusted !== nonce.isTrusted) {
        const { header, value } = nonce;
        names.push({ ...of, header, nonce: value, digest: nonceDigest(trigger, { header, value, isTrusted }) });
      }
      const named = (header: string, digest: string, until: number) => {
        const name = { header, value: digest, digest, isTrusted };
        const nameDigest = nonceAlias(trigger, name) ?? nonceDigest(trigger, name);
        names.push({ ...of, header, nonce: header === '' ? digest : null, digest: nameDigest, until });
      };
      const alive = headers.filter(({ until }) => until > nonce.arrivedAt);
      const rules = nonce.isTrusted ? otherRules(nonce, alive) : [];
      const byBody =
        rules.length > 0 && nonce.covers?.bodySha256 !== nonce.digest ? nonce.covers?.bodySha256 : undefined;
      for (const { header, until } of alive) {
        if (ruleOfMark(header) !== undefined) continue;
        if (header !== nonce.header) named(header, nonce.digest, until);
        // What a header named has no second name but its digest, which may be that of the body.
        if (byBody !== undefined && header !== '' && header !== nonce.header) named(header, byBody, until);
      }
      for (const { covers, until } of rules) {
        const digest = nonceAlias(trigger, { header: '', digest: '', isTrusted, covers });
        if (digest !== null) names.push({ ...of, header: '', nonce: null, digest, until });
      }
    }
  }
  return names;
}

/** The rules that digests of the trigger followed, without that of now. */
function otherRules({ covers }: NonceClaim, headers: readonly NamedHeader[]) {
  if (covers === undefined) return [];
  return headers.flatMap(({ header, until }) => {
    const rule = ruleOfMark(header);
    return rule === undefined || rule === covers.rule ? [] : [{ covers: { ...covers, rule }, until }];
  });
}

/** The entries to store for the header of a nonce and the rule of its digest; none if they are stored already. */
export function newHeaders({ nonce }: NonceCall, [own]: readonly TriggerKey[]): NamedHeader[] {
  if (nonce === undefined) return [];
  const { header, covers } = nonce;
  const expiresAt = nonceExpiry(nonce);
  const used = covers === undefined ? [header] : [header, markOf(covers.rule)];
  const isKnown = (name: string) => own?.headers.some((known) => known.header === name && known.until >= expiresAt);
  // A day ahead, so that a trigger's row is written once a day.
  return used.filter((name) => isKnown(name) !== true).map((name) => ({ header: name, until: expiresAt + DAY_MS }));
}

export function keepHeaders(port: Port, headers: readonly (TriggerName & NamedHeader)[]): void {
  const rows = headers.map(({ flowId, triggerKey, header, until }) => ({
    flow_id: flowId,
    trigger_key: triggerKey,
    header,
    lasts_until: until,
  }));
  port.later(sql`
    INSERT INTO sluice.nonce_headers (flow_id, trigger_key, header, lasts_until)
    SELECT flow_id, trigger_key, header, lasts_until
    FROM jsonb_to_recordset(${new Rows(rows)}) AS given (flow_id text, trigger_key text, header text, lasts_until bigint)
    WHERE true ORDER BY flow_id, trigger_key, header
    ON CONFLICT (flow_id, trigger_key, header)
      DO UPDATE SET lasts_until = greatest(nonce_headers.lasts_until, excluded.lasts_until)`);
}

const HOUR_MS = 3_600_000;

/** A nonce not asked for now lives an hour longer: on PostgreSQL equal deliveries renew it hourly, not each time. */
export function nonceExpiry({ expiresAt, isAsked }: Pick<NonceClaim, 'expiresAt' | 'isAsked'>): number {
  return isAsked ? expiresAt : expiresAt + HOUR_MS;
}

/**
 * Yields for each trigger itself and the triggers that had its deliveries earlier: under its key before it was renamed,
 * or at its slug. Also the one that has them now, because a delivery that came before a move may be accepted after it.
 */
export function* listTriggerKeys(
  port: Port,
  triggers: readonly TriggerName[],
): Decision<readonly (readonly TriggerKey[])[]> {
  const given = new Rows(
    triggers.map(({ flowId, triggerKey }, place) => ({ place, own_flow: flowId, own_key: triggerKey })),
  );
  const rows = yield* port.all<
    Omit<TriggerKey, 'headers'> & { place: number; header: string | null; until: number | null }
  >(sql`
    WITH given AS (
      SELECT * FROM jsonb_to_recordset(${given}) AS given (place integer, own_flow text, own_key text)
    ), known AS (
      SELECT 0 AS rank, place, own_flow AS flow_id, own_key AS trigger_key, NULL::bigint AS last_seq,
        NULL::bigint AS reused_at FROM given
      UNION ALL
      SELECT 1, place, former_flow_id, former_key, last_seq, reused_at
      FROM given JOIN sluice.former_trigger_keys f ON f.flow_id = own_flow AND f.trigger_key = own_key
      UNION ALL
      SELECT 1, place, flow_id, trigger_key, NULL, reused_at
      FROM given JOIN sluice.former_trigger_keys f ON f.former_flow_id = own_flow AND f.former_key = own_key
      WHERE last_seq IS NULL
    )
    SELECT place, known.flow_id AS "flowId", known.trigger_key AS "triggerKey", last_seq AS "lastSeq",
      reused_at AS "reusedAt", header, lasts_until AS "until"
    FROM known LEFT JOIN sluice.nonce_headers h ON h.flow_id = known.flow_id AND h.trigger_key = known.trigger_key
    ORDER BY place, rank, known.flow_id, known.trigger_key, (last_seq IS NOT NULL), (reused_at IS NOT NULL), reused_at DESC`);
  const keys = triggers.map((): (Omit<TriggerKey, 'headers'> & { headers: NamedHeader[] })[] => []);
  for (const { place, header, until, ...key } of rows) {
    const ofTrigger = keys[place] ?? [];
    const last = ofTrigger.at(-1);
    // If it is both former and later, the first of its rows says that all counts.
    const current = last !== undefined && sameTrigger(last, key) ? last : { ...key, headers: [] };
    if (current !== last) ofTrigger.push(current);
    if (header !== null && until !== null) current.headers.push({ header, until });
  }
  return keys;
}
