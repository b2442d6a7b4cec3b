import type { ServedHandler } from '../flows/handlers/outside.ts';
import type { DescribeHostWait, StepsAtWork } from '../flows/steps-at-work.ts';
import type { WaitLinks } from '../flows/wait-links.ts';
import type { ManifestRules } from '../manifest/load.ts';
import type { SecretReader } from '../manifest/read-secret.ts';
import type { Clock } from '../model/clock.ts';
import type { Settings } from './settings-schema.ts';

/** The settings that every step type may read; those of the part itself are absent outside of a service. */
type StepSettings = Partial<Settings> & Pick<Settings, 'egressAllow' | 'serviceName'>;

/** What step types are made with. */
export interface StepHost {
  readonly settings: StepSettings;
  readonly clock: Clock;
  /** What the last heartbeat found; this process alone where not given. */
  readonly cluster?: { readonly replicas: number } | undefined;
  /** Reads references as the settings do: what a manifest may name does not count. */
  readonly readSecret: SecretReader;
  /** As they are now: some are read again while the service runs. */
  readonly inForce: () => StepSettings;
}

/** What a part makes for one process or command. */
export interface MadeSteps<Made> {
  readonly handlers: readonly ServedHandler[];
  /** What manifests are checked for besides. */
  readonly checks?: ManifestRules['checks'];
  /** What other features get by `PreparedExtensions.of`. */
  readonly made: Made;
  /** What steps read as `waits`; of one part alone. */
  readonly waits?: WaitLinks;
  /** Background work while the service runs. */
  readonly atWork?: StepsAtWork;
  /** Asked once for a list of runs with steps that wait for hosts. */
  readonly hostWaits?: () => Promise<DescribeHostWait>;
}

/** Step types that a feature brings. `features/step-types.ts` lists the parts. */
export interface StepPart<Made = unknown> {
  readonly name: string;
  readonly make: (host: StepHost) => MadeSteps<Made>;
}

export const stepPart = <Made>(part: StepPart<Made>): StepPart<Made> => part;
