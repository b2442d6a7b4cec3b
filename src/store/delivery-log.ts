import type { Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';

/** Looking back on deliveries, and keeping their log within bounds. */
export interface DeliveryLogStore {
  /** The delivery as which a refused one was accepted later. */
  findRedelivery(deliveryId: string): Promise<{ deliveryId: string; runId: string } | undefined>;
  /**
   * The run of an accepted delivery with this nonce, expired or not, that was received since. A search through the log:
   * for a person who asks, not for each delivery.
   */
  findAcceptedNonce(search: NonceSearch): Promise<string | undefined>;
  /**
   * What was received since, or in the same hour before, by trigger and by what was found wrong. Redelivered ones do not
   * count; those whose records are gone do.
   */
  summariseDeliveries(query: { since: number; flowId?: string | undefined }): Promise<DeliveryGroup[]>;
  /** Deletes at most `limit` records that are older; yields how many. Their counts stay in the stats. What is held stays. */
  purgeDeliveries(purge: { before: number; limit: number }): Promise<number>;
  /** Gives at most so many free pages back to the file system where many are free; yields how many. */
  releaseSpace(request: { pages: number }): Promise<number>;
}

export interface NonceSearch {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly nonce: string;
  readonly since: number;
}

/** Deliveries to one trigger that are alike. */
export interface DeliveryGroup {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly mode: EnforcementMode;
  readonly violations: readonly Reason[];
  readonly count: number;
  readonly firstAt: number;
  readonly firstId: string;
  readonly lastId: string;
}
