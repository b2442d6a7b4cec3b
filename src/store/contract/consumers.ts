/**
 * Consumers that have deliveries forwarded: each has a place in the order in which deliveries were committed,
 * so that none is left out that is committed late. A delivery is one that started a run, or that joined the run of another;
 * a held one counts once its run starts.
 */
export interface ConsumerStore {
  /**
   * Yields the consumer of that name, made where there is none: it begins at `since`, and deliveries that were committed
   * later may be a little older. Consumers that were not used since `idleBefore` are forgotten. `full` where `most` are
   * there.
   */
  openConsumer(opened: {
    readonly name: string;
    readonly flowId: string | null;
    readonly triggerKey: string | null;
    readonly since: number;
    readonly at: number;
    readonly idleBefore: number;
    readonly most: number;
  }): Promise<{ readonly consumer: Consumer; readonly isNew: boolean } | 'full'>;
  /** By name. */
  listConsumers(): Promise<readonly Consumer[]>;
  findConsumer(name: string): Promise<Consumer | undefined>;
  /** What comes after the last delivery of a consumer, in order, with at most `bytes` of bodies but for the first. */
  readForwarding(query: {
    readonly name: string;
    readonly limit: number;
    readonly bytes: number;
  }): Promise<Forwarding | undefined>;
  /** Moves a consumer to another place; `outdated` where it is not at `from` any more. */
  advanceConsumer(advance: {
    readonly name: string;
    /** A delivery's id. */
    readonly from: string;
    readonly to: ForwardingPlace;
    readonly at: number;
  }): Promise<'moved' | 'outdated' | 'unknown'>;
  /** Whether there was one. */
  forgetConsumer(name: string): Promise<boolean>;
}

export interface Consumer {
  readonly name: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly deliveryId: string;
  readonly createdAt: number;
  readonly usedAt: number;
}

export interface ForwardingPlace {
  readonly position: number;
  /** Of the deliveries that joined the run of another, where the store numbers those on their own. */
  readonly joined: number;
  readonly deliveryId: string;
}

export interface Forwarding {
  readonly consumer: Consumer;
  readonly deliveries: readonly ForwardedDelivery[];
  /** Nothing more is to be forwarded before this place. */
  readonly upTo: ForwardingPlace;
}

export interface ForwardedDelivery extends ForwardingPlace {
  readonly runId: string;
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly contentType: string | null;
  /** As the record of the delivery has them; where that is deleted, as the run has them, which keeps more. */
  readonly headers: Readonly<Record<string, string>>;
  readonly hasRecord: boolean;
  readonly body: Uint8Array;
}
