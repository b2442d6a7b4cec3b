import { buildApp as build } from './app.ts';
import type { Extensions } from './config/api.ts';
import type { Environment } from './config/settings.ts';
import type { SettingsInput } from './config/settings-schema.ts';
import type { Override } from './model/finding.ts';

export * from './config/api.ts';

/** What a program that runs the service may say. */
export interface ServiceOptions {
  readonly settings?: SettingsInput;
  readonly extensions?: Extensions;
  /** Where settings and `env:` secrets are read from; empty where not given, never the process' own. */
  readonly environment?: Environment;
  /** Relative paths start here; the working directory where not given. */
  readonly folder?: string;
  /** Whether changes in the folder of manifests are deployed at once. */
  readonly watch?: boolean;
  /** What starts, reloads and watched changes deploy although it would be refused; nothing where not given. */
  readonly allow?: readonly Override[];
  /** Called when the store is lost for good: the service can no longer accept deliveries. */
  readonly onFatal?: (error: Error) => void;
}

/** A service in this process. */
export interface Service {
  /** One line for each warning about the manifests and the settings. */
  readonly warnings: readonly string[];
  /** Listens, then continues the work that the last process left; yields the address as a URL. */
  listen(): Promise<string>;
  /** Reads variables and manifests again, and deploys what changed. Never rejects: the log says what went wrong. */
  reload(): Promise<void>;
  /** Stops accepting, answers open requests, lets steps finish within the grace period, closes the store. Idempotent. */
  close(): Promise<void>;
}

/** Builds a service from its settings. Rejects where one is wrong or the store cannot be opened, and leaves nothing open. */
export const buildApp: (options?: ServiceOptions) => Promise<Service> = build;
