import type { GateStory } from '../model/delivery.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { WebhookInputs } from '../model/manifest.ts';

/** A gate's story beside what the trigger in force configures for it. */
export interface ConfiguredStory extends GateStory {
  /** Fields of the trigger; global defaults stand in for those that are absent. Null for what no field configures. */
  readonly configured: JsonObject | null;
}

// Keys are in no list, and neither is the public URL, whose query may hold a secret.
const FIELDS: Readonly<Record<string, readonly (keyof WebhookInputs)[]>> = {
  ip: ['webhookIpAllowList', 'webhookIpDenyList', 'webhookIpAllowListPreset', 'webhookIpAllowListPresets'],
  rateLimit: ['webhookRateLimitPermitsPerSecond', 'webhookRateLimitBurstSize', 'webhookRateLimitPerIp'],
  signature: [
    'webhookSignatureScheme',
    'webhookSignatureHeader',
    'webhookSignatureAlgorithm',
    'webhookSignatureEncoding',
    'webhookSignaturePrefix',
    'webhookSignedPayloadStrategy',
    'webhookCustomStrategyName',
  ],
  replay: [
    'webhookReplayToleranceSeconds',
    'webhookNonceHeader',
    'webhookTimestampHeader',
    'webhookTimestampValueKey',
    'webhookRequireTimestamp',
    'webhookDuplicateResponse',
  ],
};

export function withConfiguration(story: readonly GateStory[], inputs: WebhookInputs | undefined): ConfiguredStory[] {
  return story.map((entry) => {
    const fields = inputs === undefined ? undefined : FIELDS[entry.gate];
    return { ...entry, configured: fields === undefined || inputs === undefined ? null : pick(inputs, fields) };
  });
}

function pick(inputs: WebhookInputs, fields: readonly (keyof WebhookInputs)[]): JsonObject {
  const set = fields.flatMap((field): [string, Json][] => {
    const value = inputs[field];
    return value === undefined ? [] : [[field, value]];
  });
  return Object.fromEntries(set);
}
