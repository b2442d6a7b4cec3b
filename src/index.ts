import { buildApp as build } from './app.ts';
import type { Extensions } from './config/api.ts';
import type { Environment } from './config/settings.ts';
import type { SettingsInput } from './config/settings-schema.ts';
import type { Override } from './model/finding.ts';

export * from './config/api.ts';

/** Options of a program that runs the service. */
export interface ServiceOptions {
  readonly settings?: SettingsInput;
  readonly extensions?: Extensions;
  /** Source of settings and `env:` secrets; empty if not given, never the environment of the process. */
  readonly environment?: Environment;
  /** Relative paths start here; defaults to the working directory. */
  readonly folder?: string;
  /** Whether changes in the folder of manifests are deployed at once. */
  readonly watch?: boolean;
  /** Refused changes that starts, reloads and watched changes deploy anyway; none if not given. */
  readonly allow?: readonly Override[];
  /** Called when the store is lost for good: the service can no longer accept deliveries. */
  readonly onFatal?: (error: Error) => void;
}

/** A service in this process. */
export interface Service {
  /** One line for each warning about the manifests and the settings. */
  readonly warnings: readonly string[];
  /** Listens, then continues the work of the last process; yields the address as a URL. */
  listen(): Promise<string>;
  /** Reads variables and manifests again, and deploys what changed. Never rejects: errors go to the log. */
  reload(): Promise<void>;
  /** Stops accepting, answers open requests, lets steps finish within the grace period, closes the store. Idempotent. */
  close(): Promise<void>;
}

/** Builds a service from its settings. Rejects if one is wrong or the store does not open, and leaves nothing open. */
export const buildApp: (options?: ServiceOptions) => Promise<Service> = build;
