import type { StepHandler } from '../flows/handlers/handler.ts';
import type { GatePlugin, GateSettings } from '../webhooks/gate.ts';
import type { SchemeOptions } from '../webhooks/schemes/resolve.ts';
import type { SettingsInput } from './settings-schema.ts';

/** The schema library that handlers describe their inputs with, so that a config module needs no packages of its own. */
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
  /** Judge after the built-in gates, in this order. */
  readonly gates?: readonly GatePlugin<GateSettings>[];
  /**
   * Yields what an https URL of a publisher answers with 200, in place of Sluice, for a network in which it cannot ask itself. The
   * URL was compared with those of the publisher. Rejects for any other answer; it has 5 s.
   */
  readonly fetchFromPublisher?: (url: string) => Promise<string>;
}

/** What a config module exports as its default: options of the settings by name, and extensions. */
export type Config = SettingsInput & Extensions;

/** Types a config module. */
export function defineConfig(config: Config): Config {
  return config;
}
