import type { StepHandler } from '../flows/handlers/handler.ts';
import type { GatePlugin, GateSettings } from '../webhooks/gate.ts';
import type { SchemeOptions } from '../webhooks/schemes/resolve.ts';
import type { SettingsInput } from './settings-schema.ts';

/** The schema library for handlers' inputs, so that a config module needs no packages of its own. */
export { z } from 'zod';
export { defineHandler, type HandlerResult, type StepContext, type StepHandler } from '../flows/handlers/handler.ts';
export type { Gate, GatePlugin, Verdict } from '../webhooks/gate.ts';
export type { NamedSignatureSpec } from '../webhooks/schemes/resolve.ts';
export type {
  PayloadBuilder,
  SignatureSpec,
  SignatureVerifier,
  VerificationRequest,
  VerificationResult,
} from '../webhooks/schemes/spec.ts';
export type { Settings, SettingsInput } from './settings-schema.ts';

/** An operator's own code: handlers, gates and signature schemes. */
export interface Extensions {
  readonly handlers?: readonly StepHandler[];
  readonly verifiers?: SchemeOptions['verifiers'];
  readonly signatureSpecs?: SchemeOptions['specs'];
  /** Byte builders for the strategy Custom, by the name that manifests use. */
  readonly payloadStrategies?: SchemeOptions['payloadBuilders'];
  /** Run after the built-in gates, in this order. */
  readonly gates?: readonly GatePlugin<GateSettings>[];
  /**
   * Fetches an https URL of a publisher, for a network in which Sluice cannot do so itself: yields the body of a 200.
   * The URL was already checked against the publisher's own. Must reject any other answer; it has 5 s.
   */
  readonly fetchFromPublisher?: (url: string) => Promise<string>;
}

/** Default export of a config module: options of the settings by name, and extensions. */
export type Config = SettingsInput & Extensions;

/** Gives a config module its type. */
export function defineConfig(config: Config): Config {
  return config;
}
