import { stepPart } from '../../config/step-part.ts';
import { leavesAlertFlow } from './alert-flow.ts';
import { createAlertSender, createSendAlertHandler } from './send.ts';

/** `SendAlert`, and what tells the targets. */
export const alertsStepTypes = stepPart({
  name: 'alerts',
  make({ settings, readSecret, inForce }) {
    const send = createAlertSender({
      targets: () => inForce().alerts?.targets ?? [],
      service: settings.serviceName,
      readSecret,
      egressAllow: settings.egressAllow,
    });
    return { handlers: [createSendAlertHandler(send)], checks: [leavesAlertFlow], made: send };
  },
});
