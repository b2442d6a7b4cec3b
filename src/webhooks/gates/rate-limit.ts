import { LRUCache } from 'lru-cache';
import type { WebhookInputs } from '../../model/manifest.ts';
import { type Gate, GateConfigurationError, type GatePlugin, type GateSettings, type Verdict } from '../gate.ts';
import { fullBucket, type RateLimit, type TokenBucket, takePermit } from './token-bucket.ts';

// A bucket of one address takes some 200 bytes. The one that is dropped was used longest ago and has most likely filled
// up meanwhile; if not, its address starts again with a full one. A flood from ever new addresses so costs no memory.
const ADDRESSES_REMEMBERED = 100_000;

/** Where buckets are kept between deliveries. */
interface Buckets {
  get(key: string): TokenBucket | undefined;
  set(key: string, bucket: TokenBucket): unknown;
}

/**
 * Makes the gate that lets a flow's deliveries pass at a steady rate, by flow or by flow and client address.
 *
 * Buckets belong to the plugin, not to the gates that it prepares, so that a deploy does not refill them. The webhook
 * triggers of a flow share its buckets; triggers with different limits have separate ones, or the smaller limit would
 * drain the larger.
 */
export function rateLimitGate(): GatePlugin<GateSettings> {
  const byFlow: Buckets = new Map();
  const byAddress: Buckets = new LRUCache<string, TokenBucket>({ max: ADDRESSES_REMEMBERED });
  return {
    name: 'rateLimit',
    prepare({ flowId, inputs }, settings): Gate | undefined {
      const limit = limitOf(inputs, settings);
      if (limit === undefined) return undefined;
      const isPerIp = inputs.webhookRateLimitPerIp ?? settings.rateLimitPerIp ?? false;
      const buckets = isPerIp ? byAddress : byFlow;
      const share = `${flowId}|${limit.permitsPerSecond}|${limit.burstSize}`;
      const keyOf = (clientIp: string) => (isPerIp ? `${share}|${clientIp}` : share);
      return {
        name: 'rateLimit',
        check: ({ clientIp }) => {
          const { verdict, bucket } = judge(buckets.get(keyOf(clientIp)), limit, settings.clock.monotonic());
          buckets.set(keyOf(clientIp), bucket);
          return verdict;
        },
        rehearse: ({ clientIp }) => judge(buckets.get(keyOf(clientIp)), limit, settings.clock.monotonic()).verdict,
      };
    },
  };
}

function judge(
  known: TokenBucket | undefined,
  limit: RateLimit,
  now: number,
): { readonly verdict: Verdict; readonly bucket: TokenBucket } {
  const { bucket, retryAfterMs } = takePermit(known ?? fullBucket(limit, now), limit, now);
  const facts = { rateLimit: { permitsLeft: bucket.permits, ...limit } };
  if (retryAfterMs === 0) return { verdict: { passed: true, evidence: { facts } }, bucket };
  const detail = `more than ${limit.permitsPerSecond} a second with bursts of ${limit.burstSize}`;
  return { verdict: { passed: false, reason: 'rate_limited', detail, evidence: { retryAfterMs, facts } }, bucket };
}

/** A field of the trigger overrides the global value, each by itself. */
function limitOf(inputs: WebhookInputs, settings: GateSettings): RateLimit | undefined {
  const permitsPerSecond = inputs.webhookRateLimitPermitsPerSecond ?? settings.rateLimitPermitsPerSecond;
  if (permitsPerSecond === undefined) {
    refuseUnusedFields(inputs);
    return undefined;
  }
  if (!(permitsPerSecond > 0 && Number.isFinite(permitsPerSecond))) {
    throw new GateConfigurationError('webhookRateLimitPermitsPerSecond', 'must be a number above 0');
  }
  const burstSize =
    inputs.webhookRateLimitBurstSize ?? settings.rateLimitBurstSize ?? Math.max(1, Math.ceil(permitsPerSecond));
  if (!(burstSize >= 1 && Number.isFinite(burstSize))) {
    throw new GateConfigurationError('webhookRateLimitBurstSize', 'must be a number from 1: less lets nothing pass');
  }
  return { permitsPerSecond, burstSize };
}

function refuseUnusedFields(inputs: WebhookInputs): void {
  const message = 'limits nothing without webhookRateLimitPermitsPerSecond, here or as the global default';
  if (inputs.webhookRateLimitBurstSize !== undefined) {
    throw new GateConfigurationError('webhookRateLimitBurstSize', message);
  }
  if (inputs.webhookRateLimitPerIp === true) throw new GateConfigurationError('webhookRateLimitPerIp', message);
}
