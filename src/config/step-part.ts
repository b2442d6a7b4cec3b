import type { ServedHandler } from '../flows/handlers/outside.ts';
import type { DescribeHostWait, StepsAtWork } from '../flows/steps-at-work.ts';
import type { WaitLinks } from '../flows/wait-links.ts';
import type { ManifestRules } from '../manifest/load.ts';
import type { SecretReader } from '../manifest/read-secret.ts';
import type { Clock } from '../model/clock.ts';
import type { Settings } from './settings-schema.ts';

/** Settings that every step type can read; a part's own settings are absent outside of a service. */
type StepSettings = Partial<Settings> & Pick<Settings, 'egressAllow' | 'serviceName'>;

/** The input for making step types. */
export interface StepHost {
  readonly settings: StepSettings;
  readonly clock: Clock;
  /** The number of replicas that the last heartbeat found; defaults to this process alone. */
  readonly cluster?: { readonly replicas: number } | undefined;
  /** Reads references as for settings, without the limits for manifests. */
  readonly readSecret: SecretReader;
  /** The current settings: some are read again while the service runs. */
  readonly inForce: () => StepSettings;
}

/** The step types of a part, for one process or command. */
export interface MadeSteps<Made> {
  readonly handlers: readonly ServedHandler[];
  /** Additional checks of manifests. */
  readonly checks?: ManifestRules['checks'];
  /** Available to other features through `PreparedExtensions.of`. */
  readonly made: Made;
  /** What steps read as `waits`; only one part can provide it. */
  readonly waits?: WaitLinks;
  /** Background work while the service runs. */
  readonly atWork?: StepsAtWork;
  /** Called once per list of runs with steps that wait for hosts. */
  readonly hostWaits?: () => Promise<DescribeHostWait>;
}

/** Step types that a feature brings. `features/step-types.ts` lists the parts. */
export interface StepPart<Made = unknown> {
  readonly name: string;
  readonly make: (host: StepHost) => MadeSteps<Made>;
}

export const stepPart = <Made>(part: StepPart<Made>): StepPart<Made> => part;
