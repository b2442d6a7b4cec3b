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

// An account of one address takes some 300 bytes. The one that is dropped was used longest ago and has most likely filled
// up meanwhile; if not, its address starts again with a full one. A flood from ever new addresses so costs no memory.
const ADDRESSES_REMEMBERED = 100_000;

interface Entry {
  readonly limit: RateLimit;
  readonly bucket: TokenBucket;
}

/** What the deliveries of one flow, or of one flow and client, have left: a bucket for each limit that its triggers set. */
type Account = readonly Entry[];

/** Where accounts are kept between deliveries, and the limits of the triggers that draw on them. */
interface Accounts {
  readonly byKey: { get(key: string): Account | undefined; set(key: string, account: Account): unknown };
  /** By flow: the limits of its triggers in force. */
  readonly limits: Map<string, readonly RateLimit[]>;
}

function accountsOf(byKey: Accounts['byKey']): Accounts {
  return { byKey, limits: new Map() };
}

function byAddressOnly(): Accounts {
  return accountsOf(new LRUCache<string, Account>({ max: ADDRESSES_REMEMBERED }));
}

/** What a gate's prepare needs to draw on accounts. */
interface Drawing {
  readonly accounts: Accounts;
  readonly flowId: string;
  readonly limit: RateLimit;
  readonly isPerIp: boolean;
  readonly settings: GateSettings;
  readonly reason: Reason;
}

/** Judges a delivery, and the same without taking a permit. */
function drawing({ accounts, flowId, limit, isPerIp, settings, reason }: Drawing, gate: string) {
  const { byKey, limits } = accounts;
  const keyOf = (clientIp: string) => (isPerIp ? `${flowId}|${addressGroup(clientIp)}` : flowId);
  const judgeAt = (key: string) => {
    const at = { now: settings.clock.monotonic(), replicas: isPerIp ? 1 : (settings.cluster?.replicas ?? 1) };
    const account = upToDate(byKey.get(key) ?? [], [limit, ...(limits.get(flowId) ?? [])], at);
    return judge(account, limit, { ...at, gate, reason });
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

function replaceLimits(
  triggers: readonly WebhookTrigger[],
  all: readonly Accounts[],
  find: (trigger: WebhookTrigger) => { readonly accounts: Accounts; readonly limit: RateLimit | undefined },
): void {
  for (const { limits } of all) limits.clear();
  for (const trigger of triggers) {
    const { accounts, limit } = find(trigger);
    if (limit === undefined) continue;
    accounts.limits.set(trigger.flowId, [...(accounts.limits.get(trigger.flowId) ?? []), limit]);
  }
}

export const UNVERIFIED_RATE_LIMIT = 'unverifiedRateLimit';

/** Whether the trigger's own limit is kept for the deliveries whose signature was verified. */
export function limitsUnverified({ webhookRateLimitUnverifiedPermitsPerSecond: rate }: WebhookInputs): boolean {
  return rate !== undefined;
}

/**
 * Makes the gate that limits how many deliveries from each client address (each /64 for IPv6) reach the expensive
 * checks. Before the signature check, the sender is unknown, so a flood of forgeries uses the accounts of its own
 * addresses and not those of the publisher. The limit is not divided among replicas, like all limits per address.
 */
export function unverifiedRateLimitGate() {
  const accounts = byAddressOnly();
  const name = UNVERIFIED_RATE_LIMIT;
  return {
    name,
    inForce(triggers: readonly WebhookTrigger[], settings: SignatureSettings): void {
      replaceLimits(triggers, [accounts], ({ inputs }) => ({ accounts, limit: unverifiedLimitOf(inputs, settings) }));
    },
    prepare({ flowId, inputs }: WebhookTrigger, settings: SignatureSettings): Gate | undefined {
      const limit = unverifiedLimitOf(inputs, settings);
      if (limit === undefined) return undefined;
      const reason = 'unverified_rate_limited';
      const { take, look } = drawing({ accounts, flowId, limit, isPerIp: true, settings, reason }, name);
      return { name, check: ({ clientIp }) => take(clientIp), dryRun: ({ clientIp }) => look(clientIp) };
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
 * others. Accounts belong to the plugin, not to the gates that it prepares: a deploy does not refill them. Preparing a
 * gate changes nothing; the limits of all triggers are taken over when they come into force.
 *
 * Each of several replicas has its own accounts, so that no delivery waits for another process before its signature is
 * checked. Each accepts its share of a flow's limit; together they accept what one would. Limits per address are not
 * divided, because a load balancer often sends an address to one replica.
 */
export function rateLimitGate() {
  const byFlow = accountsOf(new Map());
  const byAddress = byAddressOnly();
  const name = 'rateLimit';
  const accountsFor = (isPerIp: boolean) => (isPerIp ? byAddress : byFlow);
  return {
    name,
    inForce(triggers: readonly WebhookTrigger[], settings: GateSettings): void {
      replaceLimits(triggers, [byFlow, byAddress], ({ inputs }) => ({
        accounts: accountsFor(countsPerIp(inputs, settings)),
        limit: limitOf(inputs, settings),
      }));
    },
    prepare({ flowId, inputs }: WebhookTrigger, settings: GateSettings): Gate | undefined {
      const limit = limitOf(inputs, settings);
      if (limit === undefined) return undefined;
      const isPerIp = countsPerIp(inputs, settings);
      const accounts = accountsFor(isPerIp);
      const { take, look } = drawing({ accounts, flowId, limit, isPerIp, settings, reason: 'rate_limited' }, name);
      const counts = ({ isVerified }: Evidence) => isVerified === true || !limitsUnverified(inputs);
      return {
        name,
        check: ({ clientIp }, evidence) => (counts(evidence) ? take(clientIp) : PASSED),
        dryRun: ({ clientIp }, evidence) => (counts(evidence) ? look(clientIp) : PASSED),
      };
    },
  };
}

const PASSED: Verdict = { passed: true };

function countsPerIp(inputs: WebhookInputs, settings: GateSettings): boolean {
  return inputs.webhookRateLimitPerIp ?? settings.rateLimitPerIp ?? false;
}

/** The account with a bucket for each limit; one of a limit that is no longer deployed goes once it has filled up. */
function upToDate(account: Account, limits: readonly RateLimit[], { now, replicas }: Instant): Account {
  const entries: Entry[] = account
    .map(({ limit, bucket }) => ({ limit, bucket: refilled(bucket, shareOf(limit, replicas), now) }))
    .filter(({ limit, bucket }) => bucket.permits < shareOf(limit, replicas).burstSize);
  for (const limit of limits) {
    if (entries.some((entry) => isSameLimit(entry.limit, limit))) continue;
    entries.push({ limit, bucket: fullBucket(shareOf(limit, replicas), now) });
  }
  return entries;
}

function judge(
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

/** When a delivery is judged, and by how many replicas the limit is shared. */
interface Instant {
  /** Monotonic milliseconds. */
  readonly now: number;
  readonly replicas: number;
}

/** What each of the replicas lets pass. A bucket holds at least one permit: less would let nothing pass, ever. */
function shareOf({ permitsPerSecond, burstSize }: RateLimit, replicas: number): RateLimit {
  return { permitsPerSecond: permitsPerSecond / replicas, burstSize: Math.max(1, burstSize / replicas) };
}

function isSameLimit(a: RateLimit, b: RateLimit): boolean {
  return a.permitsPerSecond === b.permitsPerSecond && a.burstSize === b.burstSize;
}

/** A field of the trigger overrides the global value, each by itself. */
function limitOf(inputs: WebhookInputs, settings: GateSettings): RateLimit | undefined {
  const permitsPerSecond = inputs.webhookRateLimitPermitsPerSecond ?? settings.rateLimitPermitsPerSecond;
  if (permitsPerSecond === undefined) {
    refuseUnusedFields(inputs);
    return undefined;
  }
  const burstSize = inputs.webhookRateLimitBurstSize ?? settings.rateLimitBurstSize;
  return readLimit({ permitsPerSecond, burstSize }, 'webhookRateLimit');
}

function unverifiedLimitOf(inputs: WebhookInputs, { schemes }: SignatureSettings): RateLimit | undefined {
  const {
    webhookRateLimitUnverifiedPermitsPerSecond: permitsPerSecond,
    webhookRateLimitUnverifiedBurstSize: burstSize,
  } = inputs;
  if (permitsPerSecond === undefined) {
    if (burstSize === undefined) return undefined;
    const message = 'limits nothing without webhookRateLimitUnverifiedPermitsPerSecond';
    throw new GateConfigurationError('webhookRateLimitUnverifiedBurstSize', message);
  }
  // The trigger's own limit would count nothing.
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
interface RateLimit {
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

// Sums of fractions fall short of a whole by less than this; without it a permit comes a millisecond late for ever.
const ROUNDING = 1e-9;

export function fullBucket({ burstSize }: RateLimit, at: number): TokenBucket {
  return { permits: burstSize, at };
}

/** The bucket at an instant, with what has come in since. */
function refilled(bucket: TokenBucket, limit: RateLimit, now: number): TokenBucket {
  const at = Math.max(now, bucket.at);
  const elapsedSeconds = (at - bucket.at) / 1000;
  return { permits: Math.min(limit.burstSize, bucket.permits + elapsedSeconds * limit.permitsPerSecond), at };
}

/** Takes one permit; `retryAfterMs` is 0 where there was one, else the time until there is. */
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
