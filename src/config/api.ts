import type { Extensions } from './extensions.ts';
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
export type { Extensions } from './extensions.ts';
export type { Settings, SettingsInput } from './settings-schema.ts';

/** What a config module exports as its default: options of the settings by name, and extensions. */
export type Config = SettingsInput & Extensions;

/** Types a config module. */
export function defineConfig(config: Config): Config {
  return config;
}
