# Reports a live Open vSwitch agent for host "stack", so that Neutron binds ports. There is no switch behind it, and Nova's fake driver has no device to plug.
import time

from neutron.agent import rpc
from neutron.common import config
from neutron.conf.agent import common
from neutron_lib import constants, context
from neutron_lib.agent import topics
from oslo_config import cfg

config.register_common_config_options()
common.register_agent_state_opts_helper(cfg.CONF)
config.init(['--config-file', '/stack/neutron.conf', '--log-file', '/stack/log/agent.log'])
reports = rpc.PluginReportStateAPI(topics.REPORTS)
who = context.get_admin_context_without_session()
state = {
    'binary': 'neutron-openvswitch-agent',
    'host': 'stack',
    'topic': constants.L2_AGENT_TOPIC,
    'agent_type': constants.AGENT_TYPE_OVS,
    'start_flag': True,
    'configurations': {
        'bridge_mappings': {'physnet1': 'br-ex'},
        'tunnel_types': ['vxlan'],
        'tunneling_ip': '127.0.0.1',
        'integration_bridge': 'br-int',
        'ovs_capabilities': {'datapath_types': ['system'], 'iface_types': []},
        'vhostuser_socket_dir': '/tmp',
        'ovs_hybrid_plug': False,
    },
}
while True:
    try:
        reports.report_state(who, state, use_call=True)
        state.pop('start_flag', None)
    except Exception as error:  # the broker may be away for a while
        print(error, flush=True)
        time.sleep(1)
        continue
    time.sleep(10)
