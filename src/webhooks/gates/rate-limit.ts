import { LRUCache } from 'lru-cache';
import type { Reason } from '../../model/delivery.ts';
import {
  type Evidence,
  type Gate,
  GateConfigurationError,
  type GateSettings,
  type Verdict,
  type WebhookInputs,
  type WebhookTrigger,
} from '../gate.ts';
import { addressGroup } from '../networks/addresses.ts';
import { resolveScheme } from '../schemes/resolve.ts';
import type { SignatureSettings } from './signature.ts';

// An account of one address takes some 300 bytes. The least recently used one is dropped first; it has most likely
// filled up by then, and if not, its address starts again with a full one. So a flood from ever new addresses costs no
// memory.
const ADDRESSES_REMEMBERED = 100_000;

interface Entry {
  readonly limit: RateLimit;
  readonly bucket: TokenBucket;
}

/** The permits left for one flow, or for one flow and client: a bucket for each limit that its triggers set. */
type Account = readonly Entry[];

/** The accounts, kept between deliveries, and the limits of the triggers that draw on them. */
interface Accounts {
  readonly isPerIp: boolean;
  readonly byKey: {
    get(key: string): Account | undefined;
    set(key: string, account: Account): unknown;
    entries(): Iterable<[string, Account]>;
  };
  /** By flow: the limits of its triggers in force. */
  readonly limits: Map<string, readonly RateLimit[]>;
}

function byFlowOnly(): Accounts {
  return { isPerIp: false, byKey: new Map<string, Account>(), limits: new Map() };
}

function byAddress(): Accounts {
  // An empty cache takes 2.7 MB, so it is made with the first account.
  let made: LRUCache<string, Account> | undefined;
  const byKey: Accounts['byKey'] = {
    get: (key) => made?.get(key),
    set(key, account) {
      made ??= new LRUCache({ max: ADDRESSES_REMEMBERED });
      made.set(key, account);
    },
    entries: () => made?.entries() ?? [],
  };
  return { isPerIp: true, byKey, limits: new Map() };
}

/** What a gate needs to draw on accounts. */
interface Drawing {
  readonly accounts: Accounts;
  readonly flowId: string;
  readonly limit: RateLimit;
  readonly settings: GateSettings;
  readonly reason: Reason;
}

/** Judges a delivery; `look` does the same without taking a permit. */
function drawing({ accounts, flowId, limit, settings, reason }: Drawing, gate: string) {
  const { byKey, limits, isPerIp } = accounts;
  const keyOf = (clientIp: string) => (isPerIp ? `${flowId}|${addressGroup(clientIp)}` : flowId);
  const judgeAt = (key: string) => {
    const at = instantOf(accounts, settings);
    const account = upToDate(byKey.get(key) ?? [], [limit, ...(limits.get(flowId) ?? [])], at);
    return charge(account, limit, { ...at, gate, reason });
  };
  return {
    take(clientIp: string): Verdict {
      const key = keyOf(clientIp);
      const { verdict, account } = judgeAt(key);
      byKey.set(key, account);
      return verdict;
    },
    look: (clientIp: string): Verdict => judgeAt(keyOf(clientIp)).verdict,
  };
}

function instantOf({ isPerIp }: Accounts, { clock, cluster }: GateSettings): Instant {
  return { now: clock.monotonic(), replicas: isPerIp ? 1 : (cluster?.replicas ?? 1) };
}

/** The accounts that deliveries to one place (a slug or the id of a flow) draw on. */
interface Holder {
  readonly accounts: Accounts;
  readonly flowId: string;
}

/** Takes over the limits of the triggers in force, and permits spent at their places under another flow or account. */
function takingOver<Settings extends GateSettings>(
  find: (trigger: WebhookTrigger, settings: Settings) => [Accounts, RateLimit | undefined],
) {
  const holders = new Map<string, Holder>();
  return (triggers: readonly WebhookTrigger[], settings: Settings): void => {
    const found = triggers.map((trigger) => [trigger, ...find(trigger, settings)] as const);
    for (const [, { limits }] of found) limits.clear();
    for (const { accounts } of holders.values()) accounts.limits.clear();
    for (const [{ flowId, inputs }, accounts, limit] of found) {
      if (limit === undefined) continue;
      accounts.limits.set(flowId, [...(accounts.limits.get(flowId) ?? []), limit]);
      for (const place of [flowId, ...(inputs.webhookSlug === undefined ? [] : [inputs.webhookSlug.toLowerCase()])]) {
        const before = holders.get(place);
        holders.set(place, { accounts, flowId });
        if (before === undefined || (before.accounts === accounts && before.flowId === flowId)) continue;
        inherit(before, { accounts, flowId }, settings);
      }
    }
  };
}

/** Permits spent from a common account belong to no single address, so accounts per address do not inherit them. */
function inherit(from: Holder, to: Holder, settings: GateSettings): void {
  if (to.accounts.isPerIp && !from.accounts.isPerIp) return;
  const [prefix, at] = [`${from.flowId}|`, instantOf(to.accounts, settings)];
  const spent = from.accounts.isPerIp
    ? [...from.accounts.byKey.entries()].filter(([key]) => key.startsWith(prefix))
    : [[from.flowId, from.accounts.byKey.get(from.flowId) ?? []] as const];
  const joins = from.accounts.isPerIp && !to.accounts.isPerIp;
  for (const [key, account] of spent) {
    const heir = joins ? to.flowId : `${to.flowId}${key.slice(from.flowId.length)}`;
    const own = to.accounts.byKey.get(heir) ?? [];
    const left = upToDate(account, [], instantOf(from.accounts, settings));
    to.accounts.byKey.set(heir, joined(upToDate(own, [], at), left, { ...at, joins }));
  }
}

/** For equal limits: if the accounts become one, the spent permits are added; otherwise the emptier bucket counts. */
function joined(
  own: Account,
  other: Account,
  { now, replicas, joins }: Instant & { readonly joins: boolean },
): Account {
  const others = other.map(({ limit, bucket }) => {
    const known = own.find((entry) => isSameLimit(entry.limit, limit))?.bucket.permits;
    const full = shareOf(limit, replicas).burstSize;
    const permits = joins
      ? (known ?? full) - (limit.burstSize - bucket.permits)
      : Math.min(known ?? full, bucket.permits);
    return { limit, bucket: { permits: Math.max(0, permits), at: now } };
  });
  return [...own.filter(({ limit }) => !other.some((entry) => isSameLimit(entry.limit, limit))), ...others];
}

export const UNVERIFIED_RATE_LIMIT = 'unverifiedRateLimit';

/** Whether only verified deliveries count for the trigger's own limit. */
export function limitsUnverified({ webhookRateLimitUnverifiedPermitsPerSecond: rate }: WebhookInputs): boolean {
  return rate !== undefined;
}

/**
 * Makes the gate that limits how many deliveries from each client address (each /64 for IPv6) reach the expensive
 * checks. Before the signature check, the sender is unknown, so a flood of forgeries uses the accounts of its own
 * addresses and not those of the publisher. The limit is not divided among replicas, like all limits per address.
 */
export function unverifiedRateLimitGate() {
  const accounts = byAddress();
  const name = UNVERIFIED_RATE_LIMIT;
  return {
    name,
    inForce: takingOver(({ inputs }, settings: SignatureSettings) => [accounts, unverifiedLimitOf(inputs, settings)]),
    prepare({ flowId, inputs }: WebhookTrigger, settings: SignatureSettings): Gate | undefined {
      const limit = unverifiedLimitOf(inputs, settings);
      if (limit === undefined) return undefined;
      const reason = 'unverified_rate_limited';
      const { take, look } = drawing({ accounts, flowId, limit, settings, reason }, name);
      return {
        name,
        check: ({ clientIp }) => take(clientIp),
        dryRun: ({ clientIp }) => look(clientIp),
        whenFetched: 'not asked',
      };
    },
  };
}

/**
 * Makes the gate that lets a flow's deliveries pass at a steady rate. The key is the flow, or the flow and the client's
 * address (the /64 for IPv6). If unverified deliveries have their own limit, this gate comes after the signature gate
 * and counts only verified deliveries: a forgery uses none of the publisher's permits, in any mode.
 *
 * The webhook triggers of a flow share one account: a delivery to one of them counts for all, and each delivery needs a
 * permit under the limit of its own trigger. So a trigger never accepts more than its limit, whatever the limits of the
 * others. Accounts belong to the plugin, not to the gates that it prepares: a deploy does not refill them, even if it
 * changes the limit or gives a slug to another flow. Preparing a gate changes nothing; the limits of all triggers are
 * taken over when they come into force.
 *
 * Each of several replicas has its own accounts, so that no delivery waits for another process before its signature is
 * checked. Each accepts its share of a flow's limit; together they accept what one would. Limits per address are not
 * divided, because a load balancer often sends an address to one replica.
 */
export function rateLimitGate() {
  const [ofFlows, ofAddresses] = [byFlowOnly(), byAddress()];
  const name = 'rateLimit';
  const accountsFor = (inputs: WebhookInputs, settings: GateSettings) =>
    countsPerIp(inputs, settings) ? ofAddresses : ofFlows;
  return {
    name,
    inForce: takingOver(({ inputs }, settings: GateSettings) => [
      accountsFor(inputs, settings),
      limitOf(inputs, settings),
    ]),
    prepare({ flowId, inputs }: WebhookTrigger, settings: GateSettings): Gate | undefined {
      const limit = limitOf(inputs, settings);
      if (limit === undefined) return undefined;
      const accounts = accountsFor(inputs, settings);
      const { take, look } = drawing({ accounts, flowId, limit, settings, reason: 'rate_limited' }, name);
      const counts = ({ isVerified }: Evidence) => isVerified === true || !limitsUnverified(inputs);
      return {
        name,
        check: ({ clientIp }, evidence) => (counts(evidence) ? take(clientIp) : PASSED),
        whenFetched: 'not asked',
        dryRun: ({ clientIp }, evidence) => (counts(evidence) ? look(clientIp) : PASSED),
      };
    },
  };
}

const PASSED: Verdict = { passed: true };

export function countsPerIp(inputs: WebhookInputs, settings: GateSettings): boolean {
  return inputs.webhookRateLimitPerIp ?? settings.rateLimitPerIp ?? false;
}

/**
 * Brings an account up to date, with a bucket for each limit. The bucket of a limit that is no longer deployed is
 * removed once it is full. A new limit starts with as many permits spent as the most used one.
 */
function upToDate(account: Account, limits: readonly RateLimit[], { now, replicas }: Instant): Account {
  const known = account.map(({ limit, bucket }) => ({
    limit,
    bucket: refilled(bucket, shareOf(limit, replicas), now),
  }));
  const spentOf = ({ limit, bucket }: Entry) => shareOf(limit, replicas).burstSize - bucket.permits;
  const spent = Math.max(0, ...known.map(spentOf));
  const isDeployed = ({ limit }: Entry) => limits.some((each) => isSameLimit(each, limit));
  const entries = known.filter((entry) => spentOf(entry) > 0 || isDeployed(entry));
  for (const limit of limits) {
    if (entries.some((entry) => isSameLimit(entry.limit, limit))) continue;
    const { permits } = fullBucket(shareOf(limit, replicas), now);
    entries.push({ limit, bucket: { permits: Math.max(0, permits - spent), at: now } });
  }
  return entries;
}

function charge(
  account: Account,
  limit: RateLimit,
  { now, replicas, gate, reason }: Instant & { readonly gate: string; readonly reason: Reason },
): { readonly verdict: Verdict; readonly account: Account } {
  const share = shareOf(limit, replicas);
  const own = account.find((entry) => isSameLimit(entry.limit, limit))?.bucket ?? fullBucket(share, now);
  const { bucket, retryAfterMs } = takePermit(own, share, now);
  const facts = { [gate]: { permitsLeft: bucket.permits, ...share } };
  if (retryAfterMs === 0) {
    const charged = account.map((entry) => ({
      ...entry,
      bucket: takePermit(entry.bucket, shareOf(entry.limit, replicas), now).bucket,
    }));
    return { verdict: { passed: true, evidence: { facts } }, account: charged };
  }
  const shared = replicas > 1 ? `; each of ${replicas} replicas accepts its share of that` : '';
  const detail = `more than ${limit.permitsPerSecond} a second with bursts of ${limit.burstSize}${shared}`;
  return { verdict: { passed: false, reason, detail, evidence: { retryAfterMs, facts } }, account };
}

/** When a delivery is judged, and how many replicas share the limit. */
interface Instant {
  /** Monotonic milliseconds. */
  readonly now: number;
  readonly replicas: number;
}

/** The share of each replica. A bucket holds at least one permit: with less, no delivery would ever pass. */
function shareOf({ permitsPerSecond, burstSize }: RateLimit, replicas: number): RateLimit {
  return { permitsPerSecond: permitsPerSecond / replicas, burstSize: Math.max(1, burstSize / replicas) };
}

function isSameLimit(a: RateLimit, b: RateLimit): boolean {
  return a.permitsPerSecond === b.permitsPerSecond && a.burstSize === b.burstSize;
}

/** Each field of the trigger overrides its global value. */
export function limitOf(inputs: WebhookInputs, settings: GateSettings): RateLimit | undefined {
  const permitsPerSecond = inputs.webhookRateLimitPermitsPerSecond ?? settings.rateLimitPermitsPerSecond;
  if (permitsPerSecond === undefined) {
    refuseUnusedFields(inputs);
    return undefined;
  }
  const burstSize = inputs.webhookRateLimitBurstSize ?? settings.rateLimitBurstSize;
  return readLimit({ permitsPerSecond, burstSize }, 'webhookRateLimit');
}

export function unverifiedLimitOf(inputs: WebhookInputs, { schemes }: SignatureSettings): RateLimit | undefined {
  const {
    webhookRateLimitUnverifiedPermitsPerSecond: permitsPerSecond,
    webhookRateLimitUnverifiedBurstSize: burstSize,
  } = inputs;
  if (permitsPerSecond === undefined) {
    if (burstSize === undefined) return undefined;
    const message = 'limits nothing without webhookRateLimitUnverifiedPermitsPerSecond';
    throw new GateConfigurationError('webhookRateLimitUnverifiedBurstSize', message);
  }
  // Without a scheme, the trigger's own limit would count no delivery.
  if (resolveScheme(schemes, inputs) === undefined) {
    const message = 'needs a known webhookSignatureScheme: without one no delivery is ever verified';
    throw new GateConfigurationError('webhookRateLimitUnverifiedPermitsPerSecond', message);
  }
  return readLimit({ permitsPerSecond, burstSize }, 'webhookRateLimitUnverified');
}

/** Throws `GateConfigurationError` for numbers that let everything or nothing pass. */
function readLimit(
  { permitsPerSecond, burstSize }: { readonly permitsPerSecond: number; readonly burstSize: number | undefined },
  field: 'webhookRateLimit' | 'webhookRateLimitUnverified',
): RateLimit {
  if (!(permitsPerSecond > 0 && Number.isFinite(permitsPerSecond))) {
    throw new GateConfigurationError(`${field}PermitsPerSecond`, 'must be a number above 0');
  }
  const burst = burstSize ?? Math.max(1, Math.ceil(permitsPerSecond));
  if (!(burst >= 1 && Number.isFinite(burst))) {
    throw new GateConfigurationError(`${field}BurstSize`, 'must be at least 1: a smaller value lets nothing pass');
  }
  return { permitsPerSecond, burstSize: burst };
}

function refuseUnusedFields(inputs: WebhookInputs): void {
  const message = 'limits nothing without webhookRateLimitPermitsPerSecond, here or as the global default';
  if (inputs.webhookRateLimitBurstSize !== undefined) {
    throw new GateConfigurationError('webhookRateLimitBurstSize', message);
  }
  if (inputs.webhookRateLimitPerIp === true) throw new GateConfigurationError('webhookRateLimitPerIp', message);
}

/** How many deliveries may pass. */
export interface RateLimit {
  readonly permitsPerSecond: number;
  /** Permits that a bucket holds when it is full, at least one. */
  readonly burstSize: number;
}

/** Permits left at an instant; they grow with time, without steps. */
interface TokenBucket {
  readonly permits: number;
  /** Monotonic milliseconds. */
  readonly at: number;
}

// Sums of fractions fall short of a whole by less than this; without it, every permit comes a millisecond late.
const ROUNDING = 1e-9;

export function fullBucket({ burstSize }: RateLimit, at: number): TokenBucket {
  return { permits: burstSize, at };
}

/** The bucket at an instant, with the permits that were added since its last use. */
function refilled(bucket: TokenBucket, limit: RateLimit, now: number): TokenBucket {
  const at = Math.max(now, bucket.at);
  const elapsedSeconds = (at - bucket.at) / 1000;
  return { permits: Math.min(limit.burstSize, bucket.permits + elapsedSeconds * limit.permitsPerSecond), at };
}

/** Takes one permit; `retryAfterMs` is 0 if there was one, else the time until there will be one. */
export function takePermit(
  bucket: TokenBucket,
  limit: RateLimit,
  now: number,
): { readonly bucket: TokenBucket; readonly retryAfterMs: number } {
  const { permits, at } = refilled(bucket, limit, now);
  if (permits + ROUNDING >= 1) return { bucket: { permits: Math.max(0, permits - 1), at }, retryAfterMs: 0 };
  const retryAfterMs = Math.ceil(((1 - permits) / limit.permitsPerSecond) * 1000);
  return { bucket: { permits, at }, retryAfterMs };
}
